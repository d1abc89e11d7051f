"""What tests of several folders share: data sets, configs, small detectors and servers."""
