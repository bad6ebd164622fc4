"""A program of constructs, from its statements to a job on the cluster that it describes, and the
example `examples/serve`, reached through `fairway tunnel`.

Only Azure is replaced: the values that Terraform would output are those of hosts on loopback.
"""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from waiting import PATIENCE

from fairway_agent.fanout.launchers import free_port
from fairway_simulator.ssh.cluster import SshCluster

PROGRAM = """\
import fairway_constructs as az

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGg1WIweWjybO9m6h4crvNjt/E/mny4YV2tgV86LxzWu me"

app = az.App(outdir="cdktf.out")
lab = az.EnvironmentStack(
    app, "lab", location="westeurope", zone=2, ssh_keys=[KEY], ignore_checks=["no-infiniband"]
)
net = az.Network(lab, "net", address_space="10.40.0.0/16", private_endpoints=True)
data = az.Storage(lab, "data", containers=["datasets"], network=net)
disks = az.Disks(count=4, gib=2048)
home = az.NfsServer(lab, "home", subnet=net.subnet("storage"), path="/data", disks=disks)
pair = az.Cluster(
    lab, "pair", size="Standard_D8s_v6", nodes=3, network=net, mounts=[home]
)
h100 = az.Cluster(
    lab, "h100", size="Standard_NC40ads_H100_v5", nodes=1, network=net, mounts=[home],
    spot=az.Spot(),
)
for cluster in (pair, h100):
    data.grant_read_write(cluster)
az.Targets(lab, [pair, h100], storage=data)
app.synth()
"""


def _made(output: dict[str, Any], cluster: SshCluster) -> str:
    """Returns the output as Terraform would print it, with the cluster's hosts for Azure's."""
    text = json.dumps(output["value"])
    for place, name in enumerate(cluster.names):
        text = re.sub(rf'"\$\{{[^"]*(\\"[^"]*)*instances\[{place}\][^}}]*\}}"', f'"{name}"', text)
    text = re.sub(r'"\$\{[^"]*blob_endpoint\}"', '"https://lab.blob.core.windows.net/"', text)
    text = re.sub(r'"\$\{[^"]*\}"', '"known-after-apply"', text)
    text = text.replace('"azureuser"', '"root"').replace("/data/fairway", str(cluster.shared))
    return json.dumps({"lab": {"targets": json.loads(text)}})


def test_constructs_program_is_synced_to_a_target_that_runs_a_job(
    fairway: Any, cluster: SshCluster, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True)
    document = json.loads((tmp_path / "cdktf.out/stacks/lab/cdk.tf.json").read_text())
    (tmp_path / "outputs.json").write_text(_made(document["output"]["targets"], cluster))
    (tmp_path / "fairway.yaml").write_text("{}\n")
    synced = fairway.within("targets", "sync", "--from", "outputs.json", "--json")
    assert [each["name"] for each in json.loads(synced.stdout)] == ["h100", "pair"], synced.stderr
    job = fairway.job('echo "rank $OMPI_COMM_WORLD_RANK on $(hostname)"', nodes=3)
    printed = fairway.watch(job, "-t", "pair")
    assert sorted(re.findall(r"rank \d on (n\d)", printed)) == cluster.names


# A network that uses the first ten pixels as the probabilities of the digits.
_MODEL = """
import numpy as np, os
eye = np.eye(64)
np.savez(os.environ["FAIRWAY_OUTPUT_MODEL"] + "/model.npz",
         w1=eye, b1=np.zeros(64), w2=eye[:, :10], b2=np.zeros(10))
"""


def test_serve_example_answers_requests_through_a_tunnel(
    fairway: Any, cluster: Any, repository: Path
) -> None:
    (fairway.folder / "model.py").write_text(_MODEL)
    model = fairway.job("python model.py", template="plain", outputs={"model": {}})
    train = fairway.submit(model, "--target", "local")
    assert fairway.within("wait", train).returncode == 0, fairway.within("logs", train).stdout
    example = repository / "examples/serve/serve.yaml"
    words = ("-s", f"params.model={train}", "-s", "params.port=0", "--target", "pair")
    serve = fairway.submit(example, *words)
    log = fairway.start("logs", "-f", serve)
    port = next(line.split()[-1] for line in log.stdout if "ready on port" in line)
    here = free_port()
    tunnel = fairway.start("tunnel", serve, port, "--local-port", str(here))
    assert f"localhost:{here}" in tunnel.stdout.readline()
    images = [[float(pixel == digit) for pixel in range(64)] for digit in (3, 9, 0)]
    body = json.dumps({"images": images}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{here}", body)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        assert json.loads(answer.read())["digits"] == [3, 9, 0]
    tunnel.send_signal(signal.SIGINT)
    tunnel.communicate(timeout=PATIENCE)
    assert fairway.within("cancel", serve).returncode == 0
    log.communicate(timeout=PATIENCE)
