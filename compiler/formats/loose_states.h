// States of an optimizer that are not one number for each element of the stepped parameter: scales of blocks, the codes
// that they scale, factors of rows and columns, single numbers. Nobody but the optimizer knows what such a state says
// of which element; so it has no place in another cut. But where a target steps exactly the same elements together, in
// the same places, it stays as it is. Names and cuts alone say what is stepped together, and not by ranks:
//
//   one parameter without ZeRO     its own elements, with its shape
//   a partition at stages 1 and 2  | end of `a` | `b` | begin of `c` |
//   a partition at stage 3         | part of `a` | part of `b` | part of `c` |
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/formats/pytorch/values/value.h"
#include "compiler/layout/dtype.h"
#include "compiler/layout/storage.h"

namespace ucp {

// Elements [begin, end) of one local tensor, from `place` on in what is stepped as one.
struct SteppedPiece {
  std::size_t shard = 0;  // Of the inventory. Source only.
  std::string tensor;     // Its name in the layout.
  std::string held;       // The part of that in the local tensor: ToString() of its product set.
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t place = 0;
};

// The parameters that an optimizer steps as one tensor. Pure padding has one piece without elements, with the number of
// the partition as its place.
struct SteppedElements {
  std::vector<std::int64_t> sizes;
  std::vector<SteppedPiece> pieces;
};

// Partition `number` of a long vector that is cut into parts of `length`. `vector` has whole tensors and their places.
SteppedElements PartOfVector(const std::vector<SteppedPiece>& vector, std::int64_t length, std::int64_t number);
// Partition `number` of `count`, of tensors that are each cut on their own; their places are those in a partition.
SteppedElements PartOfEach(const std::vector<SteppedPiece>& tensors, std::int64_t length, std::int64_t count,
                           std::int64_t number);

// Equal if and only if the same elements stand in the same places.
std::string KeyOf(const SteppedElements& stepped);
// "[720] with `a.weight`[0, 300) to `b.bias`[0, 20)"
std::string ToString(const SteppedElements& stepped);

// A tensor inside of such a state. In the source it begins at element `base` of the buffer of `states`.
struct LooseTensor {
  BufferSetId states;
  std::int64_t base = 0;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> sizes;
  std::string name;  // Under which a plan moves it; no tensor of the model has it.
};

struct LooseState {
  std::string name;      // "absmax"
  std::string sentence;  // Where it was found, and why it is one: "`absmax` of group 0 in `…` is a tensor of [3]"
  SteppedElements belongs_to;
  // Of each tensor in it, the storage's key is the tensor's place in `tensors`; with `parameter`, it is that of a
  // tensor of the training state.
  pytorch::ValuePtr value;
  std::vector<LooseTensor> tensors;
  std::string why_not_carried;  // Empty if it can be.
  std::string parameter;        // That it is of, where the source has its states by parameters' names.
};

// Returns whether they differ in nothing but the elements of their tensors.
bool HaveSameForm(const LooseState& a, const LooseState& b);

}  // namespace ucp
