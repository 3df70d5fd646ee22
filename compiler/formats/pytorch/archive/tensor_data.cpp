// Reading one number, and where the elements of a tensor lie.
#include <cstddef>

#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/layout/number_of_dtype.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {

std::uint64_t FileOffset(const Archive& archive, const Tensor& tensor) {
  const auto storage = archive.storages.find(tensor.storage->key);
  UCP_CHECK(storage != archive.storages.end(), "storage `{}` is not of this archive", tensor.storage->key);
  return storage->second.data.offset + static_cast<std::uint64_t>(tensor.offset * ItemBytes(tensor.dtype));
}

llvm::Expected<double> ReadScalar(const ReadableFile& file, const Archive& archive, const Tensor& tensor) {
  for (const std::int64_t size : tensor.sizes) {
    if (size != 1) return Fail(ErrorCode::kBadData, "`{}`: a tensor stands where one number is expected", file.path());
  }
  UCP_ASSIGN_OR_RETURN(const std::string bytes, ReadSmallTensor(file, archive, tensor));
  double number = 0;
  const bool is_number = VisitNumber(tensor.dtype, [&](auto type) {
    number = static_cast<double>(LoadNumber<decltype(type)>(reinterpret_cast<const std::byte*>(bytes.data())));
  });
  if (is_number) return number;
  return Fail(ErrorCode::kUnsupported, "`{}`: a {} stands where a number is expected", file.path(), Name(tensor.dtype));
}

}  // namespace ucp::pytorch
