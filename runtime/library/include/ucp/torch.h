// Tensors of LibTorch as the library saves and fills them. Compiled with the LibTorch of the program that includes it,
// so that the library needs none.
#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ucp/error.h"
#include "ucp/load_into.h"
#include "ucp/save.h"

namespace ucp {
inline namespace v0 {
namespace libtorch {

// "float32", as PyTorch names it. Throws Error (kUnsupported) for other kinds, such as quantized ones.
inline std::string NameOf(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kBool:
      return "bool";
    case torch::kUInt8:
      return "uint8";
    case torch::kInt8:
      return "int8";
    case torch::kInt16:
      return "int16";
    case torch::kInt32:
      return "int32";
    case torch::kInt64:
      return "int64";
    case torch::kFloat16:
      return "float16";
    case torch::kBFloat16:
      return "bfloat16";
    case torch::kFloat32:
      return "float32";
    case torch::kFloat64:
      return "float64";
    case torch::kComplexFloat:
      return "complex64";
    case torch::kComplexDouble:
      return "complex128";
    case torch::kFloat8_e4m3fn:
      return "float8_e4m3fn";
    case torch::kFloat8_e5m2:
      return "float8_e5m2";
    default:
      throw Error(ErrorKind::kUnsupported,
                  std::string("numbers of the kind ") + torch::toString(dtype) + " are not saved or loaded");
  }
}

// Throws Error (kUnsupported) for a tensor that has no memory of the host.
inline void NeedHostMemory(const torch::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.layout() == torch::kStrided) return;
  throw Error(ErrorKind::kUnsupported,
              "a tensor on `" + tensor.device().str() + "` is not a dense one in the host's memory; copy it there");
}

// The bytes from a tensor's first element to its last.
inline std::size_t BytesOf(const torch::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t last = 0;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return static_cast<std::size_t>(last + 1) * tensor.element_size();
}

}  // namespace libtorch

// All of a tensor. Nothing is copied here; the tensor is kept until the save is staged. Of a part of one, set `shape`
// and `holds` of the result.
inline TensorToSave SaveOf(StatePath path, const torch::Tensor& tensor) {
  libtorch::NeedHostMemory(tensor);
  return {.path = std::move(path),
          .dtype = libtorch::NameOf(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .memory = {static_cast<const std::byte*>(tensor.const_data_ptr()), libtorch::BytesOf(tensor)},
          .strides = tensor.strides().vec(),
          .owner = std::make_shared<torch::Tensor>(tensor)};
}

// All of one state of a tensor, to be filled, in the memory of the host or of a CUDA device, which must have done what
// it was given to do (torch::cuda::synchronize). The tensor must be contiguous, and outlive the load. Of a part of one,
// set `shape` and `holds` of the result.
inline TensorToFill FillOf(const std::string& name, const std::string& state, const torch::Tensor& tensor) {
  if (!tensor.is_cuda()) libtorch::NeedHostMemory(tensor);
  if (tensor.layout() != torch::kStrided || !tensor.is_contiguous()) {
    throw Error(ErrorKind::kUnsupported, "`" + state + "` of `" + name + "` cannot be filled: it is not contiguous");
  }
  return {.tensor = name,
          .state = state,
          .dtype = libtorch::NameOf(tensor.scalar_type()),
          .shape = tensor.sizes().vec(),
          .memory = {static_cast<std::byte*>(tensor.data_ptr()), libtorch::BytesOf(tensor)},
          .device = tensor.is_cuda() ? tensor.device().str() : ""};
}

}  // namespace v0
}  // namespace ucp
