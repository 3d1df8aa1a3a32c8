import pytest

from penstock import ConfigError
from penstock.storage.location import StorageOptions
from penstock.storage.storage import Storage

STORAGE = "PENSTOCK_FILES"


def test_the_environment_says_how_the_storage_is_reached() -> None:
    options = StorageOptions.of(
        STORAGE,
        {
            "PENSTOCK_FILES_ENDPOINT": "http://minio:9000",
            "PENSTOCK_FILES_REGION": "eu-central-1",
            "PENSTOCK_FILES_ALLOW_HTTP": "true",
            "PENSTOCK_FILES_PATIENCE": "5",
        },
    )
    assert options == StorageOptions("http://minio:9000", "eu-central-1", True, 5, STORAGE)


def test_without_them_the_defaults_hold() -> None:
    assert StorageOptions.of(STORAGE, {}) == StorageOptions(variable=STORAGE)


@pytest.mark.parametrize(
    ("name", "value"), [("ALLOW_HTTP", "maybe"), ("PATIENCE", "long"), ("PATIENCE", "-1")]
)
def test_a_value_that_is_not_allowed_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=value):
        StorageOptions.of(STORAGE, {f"{STORAGE}_{name}": value})


@pytest.mark.parametrize("url", ["ftp://host/x", "s3://", "s3://k:s3cret@b/x", "s3://b/x?k=s3cret"])
def test_unknown_kind_of_storage_is_refused_without_its_secret(url: str) -> None:
    with pytest.raises(ConfigError, match="s3://bucket/prefix") as refused:
        Storage.of(url)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["gs://bucket/prefix", "az://container/prefix"])
def test_the_other_clouds_are_taken_with_their_own_variables(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    assert isinstance(Storage.of(url), Storage)
