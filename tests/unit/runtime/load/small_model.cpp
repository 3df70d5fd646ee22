#include "tests/unit/runtime/load/small_model.h"

#include <fmt/format.h>

#include <fstream>

namespace ucp {

SmallModel::SmallModel(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) Add(tensor);
  Write();
}

void SmallModel::Grow(const Tensor& tensor) {
  Add(tensor);
  Write();
}

void SmallModel::Add(const Tensor& tensor) {
  header_ += fmt::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", header_.empty() ? "" : ",",
                         tensor.name, tensor.dtype, tensor.shape, data_.size(), data_.size() + tensor.bytes);
  std::string& content = contents_[tensor.name];
  for (std::size_t i = 0; i < tensor.bytes; ++i) content += static_cast<char>(random_());
  data_ += content;
}

void SmallModel::Write() const {
  const std::string header = "{" + header_ + "}";
  std::string content(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) content[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  std::ofstream(file(), std::ios::binary) << content << header << data_;
}

}  // namespace ucp
