"""Vector instructions for kernels, where the compiler finds none by itself.

It keeps no sums of several rows in registers, and makes no vectors of loops over few outputs.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import intrinsic as _intrinsic

intrinsic: Any = _intrinsic
# Bytes of a vector: one of AVX-512, or two of AVX2.
VECTOR = 64


def instructions(generate, signature):
    """What Numba asks of an intrinsic that returns nothing: its type, and what writes it.

    `generate` gets `Vectors` of the numbers of the first argument, and the arguments. Arrays are
    contiguous, since strides are not looked at.
    """
    if not all(getattr(kind, "layout", "C") == "C" for kind in signature.args):
        raise errors.TypingError("Vectors are read from contiguous arrays only.")

    def write(context, builder, signature, args):
        values = [
            context.make_array(kind)(context, builder, arg)
            if isinstance(kind, types.Array)
            else arg
            for kind, arg in zip(signature.args, args, strict=True)
        ]
        number = context.get_data_type(signature.args[0].dtype)
        generate(Vectors.of(builder, number), *values)
        return context.get_dummy_value()

    return signature, write


class Vectors(NamedTuple):
    """Instructions for vectors of a type of number, of so many numbers each."""

    builder: Any
    number: Any
    lanes: int

    @classmethod
    def of(cls, builder, number):
        """The widest vectors."""
        return cls(builder, number, VECTOR // cls(builder, number, 1).size)

    @property
    def is_float(self):
        """Whether numbers are not whole."""
        return not isinstance(self.number, ir.IntType)

    @property
    def size(self):
        """The bytes of a number."""
        return 8 if isinstance(self.number, ir.DoubleType) else 4

    @property
    def kind(self):
        """The type of a vector."""
        return ir.VectorType(self.number, self.lanes)

    def _pointer(self, data, place):
        return self.builder.bitcast(self.builder.gep(data, [place]), self.kind.as_pointer())

    def load(self, data, place):
        """The vector from a place of an array on."""
        return self.builder.load(self._pointer(data, place), align=self.size)

    def store(self, vector, data, place):
        """Write a vector from a place of an array on."""
        self.builder.store(vector, self._pointer(data, place), align=self.size)

    def number_at(self, data, place):
        """A number of an array."""
        return self.builder.load(self.builder.gep(data, [place]))

    def repeat(self, data, place):
        """A vector of one number of an array."""
        x = self.number_at(data, place)
        none, zero = ir.Constant(self.kind, ir.Undefined), ir.IntType(32)(0)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), None)
        return self.builder.shuffle_vector(self.builder.insert_element(none, x, zero), none, lanes)

    def add(self, a, b):
        """The sum; a sum with a product may be one operation."""
        if self.is_float:
            return self.builder.fadd(a, b, flags=("contract",))
        return self.builder.add(a, b)

    def product(self, x, w):
        """The product."""
        if self.is_float:
            return self.builder.fmul(x, w, flags=("contract",))
        return self.builder.mul(x, w)

    def difference(self, x, w):
        """The absolute difference; of whole numbers the larger one."""
        if not self.is_float:
            return self.builder.select(self.builder.icmp_signed(">", x, w), x, w)
        return self._absolute(self.builder.fsub(x, w))

    def more_than_of_zero(self, x, w):
        """By how much `difference` is more than that of 0, for w that are not negative."""
        return (self.builder.fsub if self.is_float else self.builder.sub)(self.difference(x, w), w)

    def _absolute(self, vector):
        name = f"llvm.fabs.v{self.lanes}f{8 * self.size}"
        kind = ir.FunctionType(self.kind, [self.kind])
        absolute = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(absolute, [vector])


def _add_row(vectors, table, place, out, to):
    """The instructions of `add_row`."""
    builder, whole = vectors.builder, place.type
    width = cgutils.unpack_tuple(builder, out.shape)[-1]
    first, here = builder.mul(place, width), builder.mul(to, width)

    def add(vectors, k):
        a, b = builder.add(here, k), builder.add(first, k)
        total = vectors.add(vectors.load(out.data, a), vectors.load(table.data, b))
        vectors.store(total, out.data, a)

    many = builder.and_(width, whole(-vectors.lanes))
    with cgutils.for_range_slice(builder, whole(0), many, whole(vectors.lanes)) as (k, _):
        add(vectors, k)
    done, lanes = many, vectors.lanes // 2
    while lanes:
        has_more = builder.icmp_signed("!=", builder.and_(width, whole(lanes)), whole(0))
        with builder.if_then(has_more):
            add(vectors._replace(lanes=lanes), done)
        done, lanes = builder.add(done, builder.and_(width, whole(lanes))), lanes // 2


@intrinsic
def add_row(typing, table, place, out, to):
    """In kernels: add ``table[place]`` to ``out[to]``, for contiguous arrays of one width."""
    return instructions(_add_row, types.void(table, types.intp, out, types.intp))
