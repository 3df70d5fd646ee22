#include "compiler/formats/dcp/entries/loose.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ucp::dcp {

LooseState LooseStateOf(const StateEntry& state, const std::vector<std::int64_t>& shape, std::size_t shard,
                        const pytorch::ValuePtr& value) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  LooseState loose;
  loose.name = state.state;
  loose.sentence = state.entry->is_tensor
                       ? fmt::format("`{}` is a tensor of [{}], and the parameter one of [{}]", state.entry->key,
                                     fmt::join(state.entry->shape, ", "), fmt::join(shape, ", "))
                       : fmt::format("`{}` is a value, and not a tensor", state.entry->key);
  loose.belongs_to.sizes = shape;
  loose.belongs_to.pieces = {{shard, state.parameter, "", 0, elements, 0}};
  loose.parameter = state.parameter;
  loose.value = value;
  return loose;
}

}  // namespace ucp::dcp
