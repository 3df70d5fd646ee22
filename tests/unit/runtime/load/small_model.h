// A small safetensors folder, written byte by byte, and what each of its tensors must hold.
#pragma once

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/compiler/formats/testing/checkpoint_copy.h"

namespace ucp {

class SmallModel {
 public:
  struct Tensor {
    std::string name;
    std::string dtype;  // As a header has both.
    std::string shape;
    std::size_t bytes = 0;
  };

  // One behind the other, in this order. None begins at a round place, as others write them: the header has 8 bytes
  // more or less.
  explicit SmallModel(const std::vector<Tensor>& tensors);

  void Grow(const Tensor& tensor);  // Writes the file again, with this one behind the others.

  std::string path() const { return folder_.path(); }
  std::string file() const { return path() + "/model.safetensors"; }
  const std::map<std::string, std::string>& contents() const { return contents_; }  // By name.

 private:
  void Add(const Tensor& tensor);
  void Write() const;

  testing::TemporaryFolder folder_;
  std::mt19937 random_{20261122};
  std::string header_;
  std::string data_;
  std::map<std::string, std::string> contents_;
};

}  // namespace ucp
