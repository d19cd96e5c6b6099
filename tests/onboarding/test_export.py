"""ONNX files that come from anywhere: bounded, or refused in one line."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads import UserError
from manyheads.onboarding.export import onnx_outputs

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])


def written(path, nodes, inputs=(X,), outputs=(Y,), initializers=(), domains=(), **more):
    graph = helper.make_graph(nodes, "g", list(inputs), list(outputs), list(initializers))
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(d, 1) for d in domains)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8, **more), path)
    return path


def endless():
    """while true: nothing"""
    condition = helper.make_tensor_value_info("again", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    out = helper.make_tensor_value_info("more", TensorProto.BOOL, [])
    body = helper.make_graph([helper.make_node("Identity", ["again"], ["more"])], "body", [count, condition], [out])
    true = helper.make_tensor("true", TensorProto.BOOL, [], [True])
    return [helper.make_node("Loop", ["", "true"], [], body=body), helper.make_node("Relu", ["x"], ["y"])], true


def test_a_plain_network_is_run(tmp_path):
    run = onnx_outputs(written(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])]))
    assert run(np.array([[1.0, -1.0]], np.float32)).tolist() == [[1.0, 0.0]]


def test_an_endless_loop_is_refused_before_it_is_run_also_in_a_branch(tmp_path):
    nodes, true = endless()
    with pytest.raises(UserError, match=r"m\.onnx is refused: it holds the operator Loop"):
        onnx_outputs(written(tmp_path / "m.onnx", nodes, initializers=[true]))
    inner = helper.make_graph([nodes[0], helper.make_node("Relu", ["x"], ["z"])], "inner", [], [
        helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", 2])
    ])  # fmt: skip
    branch = helper.make_node("If", ["true"], ["y"], then_branch=inner, else_branch=inner)
    with pytest.raises(UserError, match="it holds the operator Loop"):
        onnx_outputs(written(tmp_path / "b.onnx", [branch], initializers=[true]))


def test_functions_foreign_operators_and_other_files_are_refused(tmp_path):
    own = helper.make_function("own", "F", ["x"], ["y"], [helper.make_node("Relu", ["x"], ["y"])], [helper.make_opsetid("", 17)])  # fmt: skip
    relu = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(UserError, match="functions of its own"):
        onnx_outputs(written(tmp_path / "f.onnx", [relu], domains=["own"], functions=[own]))
    foreign = helper.make_node("BeamSearch", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(UserError, match="it holds the operator com.microsoft.BeamSearch"):
        onnx_outputs(written(tmp_path / "o.onnx", [foreign], domains=["com.microsoft"]))
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="/etc/passwd")
    with pytest.raises(UserError, match="it reads other files"):
        onnx_outputs(written(tmp_path / "e.onnx", [helper.make_node("Add", ["x", "w"], ["y"])], initializers=[outside]))


def test_wrong_inputs_and_outputs_are_one_line(tmp_path):
    other = helper.make_tensor_value_info("other", TensorProto.FLOAT, ["n", 2])
    with pytest.raises(UserError, match="other than one input"):
        onnx_outputs(written(tmp_path / "a.onnx", [helper.make_node("Add", ["x", "other"], ["y"])], inputs=(X, other)))
    run = onnx_outputs(written(tmp_path / "b.onnx", [helper.make_node("Relu", ["x"], ["y"])]))
    for x in (np.zeros((1, 3), np.float32), np.zeros((1, 2), np.int64), np.zeros(2, np.float32)):
        with pytest.raises(UserError, match=r"b\.onnx cannot be run") as error:
            run(x)
        assert "\n" not in str(error.value)
    total = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    run = onnx_outputs(
        written(tmp_path / "c.onnx", [helper.make_node("ReduceMean", ["x"], ["y"], axes=[0])], outputs=(total,))
    )
    with pytest.raises(UserError, match="numbers for every sample"):
        run(np.zeros((3, 2), np.float32))
    (tmp_path / "d.onnx").write_bytes(b"rubbish")
    with pytest.raises(UserError, match=r"d\.onnx cannot be read"):
        onnx_outputs(tmp_path / "d.onnx")
