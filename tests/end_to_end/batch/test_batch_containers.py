"""Jobs in containers on a pool that supports them."""

from collections.abc import Callable

from batch_service import Batch


def test_batch_container_ignores_the_entry_point_of_its_image(
    make_batch: Callable[..., Batch],
) -> None:
    batch = make_batch(nodes=1, vm_size="Standard_ND96asr_v4", images={"train:1": ["/bin/false"]})
    batch.target(vm_size="Standard_ND96asr_v4")
    job = batch.fairway.job(
        'echo "run: $(cat prepared)"',
        template="plain",
        setup="echo prepared >prepared",
        container={"image": "train:1", "shm_size": "16g", "options": ["--cap-add=SYS_PTRACE"]},
    )
    code, said = batch.watch(job)
    assert code == 0, said
    assert "run: prepared" in said


def test_batch_container_with_a_missing_image_reports_the_reason(
    make_batch: Callable[..., Batch],
) -> None:
    batch = make_batch(nodes=1, images={"train:1": []})
    job = batch.fairway.job("true", template="plain", container={"image": "train:2"})
    code, said = batch.watch(job)
    assert code != 0
    assert "There is no image train:2" in said
