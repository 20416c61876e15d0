"""The same program has the same verdict, whichever profiler saw it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dutycycle.profile.profile import read
from dutycycle.profile.verdict import family_of
from tests.support.data import profiled
from tests.support.data.profiled import ADD, Program, write_export, write_trace

_PROGRAMS: list[tuple[Callable[[], Program], str, str]] = [
    (profiled.waits_for_data, "input", "loader workers"),
    (profiled.waits_for_data, "input", "pin_memory=True"),
    (profiled.launches_slowly, "launch", "CUDA graphs"),
    (profiled.asks_for_results, "synchronization", ".item()"),
    (profiled.communicates, "communication", "overlap"),
    (profiled.computes, "gpu", "larger batches"),
    (lambda: profiled.computes(name=ADD), "memory_bandwidth", "fuse kernels"),
    (profiled.unbalanced, "imbalance", "evenly"),
]


@pytest.mark.parametrize(("program", "bottleneck", "advice"), _PROGRAMS)
def test_each_bottleneck_is_found_in_both(
    tmp_path: Path, program: Callable[[], Program], bottleneck: str, advice: str
) -> None:
    export = read(write_export(program(), tmp_path / "export.sqlite"))
    trace = read(write_trace(program(), tmp_path / "rank0.pt.trace.json.gz"))
    assert export.finding.bottleneck == bottleneck, export.evidence
    assert export.advice is not None
    assert advice in export.advice
    assert trace.evidence == export.evidence
    assert (trace.finding, trace.advice) == (export.finding, export.advice)


def test_the_evidence_is_what_the_program_did(tmp_path: Path) -> None:
    evidence = read(write_export(profiled.waits_for_data(), tmp_path / "export.sqlite")).evidence
    assert evidence["pageable_pct"] == 100
    assert evidence["wait_input_pct"] == pytest.approx(100 * 9 * 6 / (10 * 9 + 9 * 6), abs=0.1)
    assert evidence["copies_to_gpu_pct"] == pytest.approx(100 * 10 / (10 * 9 + 9 * 6), abs=0.1)
    assert evidence["kernel_mean_us"] == 2000
    assert evidence["synchronizations"] == 10


def test_copies_alone_are_named_as_such(tmp_path: Path) -> None:
    program = Program()
    for _ in range(10):
        program.copy("HtoD", 10**8, 5 * profiled.MS)
        program.launch(profiled.GEMM, profiled.MS)
    found = read(write_export(program, tmp_path / "export.sqlite"))
    assert found.finding.bottleneck == "input"
    assert found.advice is not None
    assert found.advice.startswith("copies to the GPU alone take 83.3 % of the time")


def test_a_host_that_is_busy_with_something_else_is_not_guessed_at(tmp_path: Path) -> None:
    program = Program()
    for _ in range(10):
        program.works(8 * profiled.MS, "evaluate")
        program.launch(profiled.GEMM, 2 * profiled.MS)
    found = read(write_export(program, tmp_path / "export.sqlite"))
    assert found.finding.bottleneck == "unknown"
    assert "py-spy" in (found.advice or "")


def test_work_that_is_queued_and_does_not_begin_is_no_lack_of_demand(tmp_path: Path) -> None:
    program = Program()
    for _ in range(20):
        program.launch(profiled.GEMM, 200 * profiled.US)
        program.free[0] += 100 * profiled.US
    found = read(write_export(program, tmp_path / "export.sqlite"))
    assert (found.finding.bottleneck, found.finding.confidence) == ("unknown", 0.98)
    assert "waits between streams" in (found.advice or "")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8", "matrix multiplication"),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", "matrix multiplication"),
        ("Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32", "matrix multiplication"),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)", "attention"),
        ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", "normalization"),
        ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false>", "layout"),
        ("cudnn_ampere_scudnn_128x64_relu_xregs_large_nn_v1", "convolution"),
        ("void at::native::elementwise_kernel<128, 2, gpu_kernel_impl<[lambda(int)]>>", "elementwise"),
        ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", "optimizer"),
        ("void at::native::(anonymous namespace)::softmax_warp_forward<float>", "softmax"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)", "communication"),
        ("saxpy(double *, double *, double *, double, int)", "other"),
    ],
)
def test_kernels_are_of_the_family_that_their_name_says(name: str, family: str) -> None:
    assert family_of(name) == family
