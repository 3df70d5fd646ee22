// One side of a trial: a layout on some mesh as files that exist only as tables, and what stands in them. Every element
// says which it is, so that a wrong one tells where it came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/layout/inventory.h"
#include "compiler/layout/layout.h"
#include "compiler/layout/target.h"

namespace ucp {

// How the elements that one coordinate holds are stored.
enum class Storing : std::uint8_t {
  kFlat,        // All tensors behind each other, cut into parts (ZeRO-1 and 2).
  kEachTensor,  // Every tensor cut into parts on its own (ZeRO-3).
};

struct SideStyle {
  Storing storing = Storing::kFlat;
  std::int64_t parts = 1;  // Data-parallel ranks that share a coordinate's elements.
  // As a checkpoint that was read, and not written by us: second names have copies of their own, and stages that do not
  // train their copy hold another value.
  bool as_found = false;
};

// The contents of each record, element by element: ElementOf(), or oracle::kNothing.
using Memory = std::vector<std::vector<std::int64_t>>;

struct Side {
  Layout layout;
  TargetFiles files;
  Memory memory;
  std::string partly_copied;  // A tensor of which two ranks hold different sets that overlap, if there is one.
};

// Returns the element with the row-major index `index` of tensor number `tensor` of the layout, and back.
std::int64_t ElementOf(std::size_t tensor, std::int64_t index);
struct ElementName {
  std::size_t tensor = 0;
  std::int64_t index = 0;
  std::int64_t offset = 0;  // That was added to its number.
};
ElementName NameOf(std::int64_t element);
// Returns the element when `offset` was added to its number.
std::int64_t WithOffset(std::int64_t element, std::int64_t offset);

// The layout must have passed VerifyLayout().
Side BuildSide(const Layout& layout, const SideStyle& style);

// Returns the same side as a source.
Inventory AsInventory(const Side& side);

}  // namespace ucp
