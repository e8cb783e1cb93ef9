"""Pydantic models go through their own validators and serializers."""

import datetime as dt

import pydantic
import pytest

from streamlet.codecs import EncodeError, codec_for, explain_encode


class Line(pydantic.BaseModel):
    sku: str
    count: int = pydantic.Field(gt=0)


class Cart(pydantic.BaseModel):
    id: str
    made: dt.datetime
    lines: list[Line] = pydantic.Field(default=[], alias="cartLines")


MADE = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
CART = Cart(id="c", made=MADE, cartLines=[Line(sku="s", count=2)])


def test_a_model_is_written_under_its_aliases_and_read_back():
    codec = codec_for(Cart)

    data = codec.encode(CART)

    assert data == b'{"id":"c","made":"2026-01-02T00:00:00Z","cartLines":[{"sku":"s","count":2}]}'
    assert codec.decode(data) == CART


@pytest.mark.parametrize("choice", ["json", "msgpack"])
@pytest.mark.parametrize(
    ("hint", "value"), [(Cart, CART), (list[Cart], [CART]), (Cart | None, CART), (dict[str, Line], {"a": Line(sku="s", count=1)})]
)
def test_models_come_back_wherever_they_stand(hint, value, choice):
    codec = codec_for(hint, choice)

    assert codec.decode(codec.encode(value)) == value


def test_the_models_own_validators_judge_what_is_read():
    with pytest.raises(pydantic.ValidationError, match="greater than 0"):
        codec_for(Line).decode(b'{"sku":"s","count":0}')


@pytest.mark.parametrize("value", [{"sku": "s", "count": 1}, CART, None, Line.model_construct(sku="s", count="two")])
def test_what_is_no_sound_model_is_refused(value):
    codec = codec_for(Line)

    with pytest.raises(Exception, match=r".") as failure:
        codec.encode(value)

    assert isinstance(explain_encode(codec, value, failure.value), EncodeError)


def test_the_description_ignores_prose():
    class Item(pydantic.BaseModel):
        """One text."""

        sku: str

    first = codec_for(Item).describe()

    class Item(pydantic.BaseModel):  # type: ignore[no-redef]
        """Another text."""

        sku: str

    assert codec_for(Item).describe() == first


class Sized(pydantic.BaseModel):
    size: float | None
    note: str | None = None


class OneWay(pydantic.BaseModel):
    size: int = pydantic.Field(validation_alias="inputSize")


def test_a_number_that_json_lacks_is_refused_and_null_is_not():
    codec = codec_for(Sized)

    assert codec.encode(Sized(size=None)) == b'{"size":null,"note":null}'
    with pytest.raises(EncodeError, match="NaN"):
        codec.encode(Sized(size=float("nan")))


def test_a_model_that_cannot_read_what_it_writes_is_refused():
    with pytest.raises(EncodeError, match="aliases differ"):
        codec_for(OneWay).encode(OneWay(inputSize=3))
