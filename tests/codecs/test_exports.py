"""The public names are there, and the costly ones are loaded only when named."""

import subprocess
import sys

import streamlet.codecs


def test_every_public_name_can_be_reached():
    missing = [name for name in streamlet.codecs.__all__ if not hasattr(streamlet.codecs, name)]

    assert missing == []


def test_avro_and_the_http_client_are_loaded_only_when_named():
    script = (
        "import sys, streamlet.codecs\n"
        "streamlet.codecs.codec_for(dict[str, int])\n"
        "print([name for name in ('fastavro', 'urllib.request', 'pydantic', 'confluent_kafka') if name in sys.modules])\n"
        "streamlet.codecs.avro\n"
        "print('fastavro' in sys.modules)"
    )

    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)

    assert answer.stdout.splitlines() == ["[]", "True"]
