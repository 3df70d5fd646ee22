// Values of a job that has no Python, as such a job's ranks send them (save_messages.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace ucp {

struct PlainValue {
  std::string key;
  std::variant<bool, std::int64_t, double, std::string, std::vector<double>, std::vector<std::string>> value;
};

// An archive of torch.save: a dict of the values by key.
std::string PickledValues(std::span<const PlainValue> values);

}  // namespace ucp
