// A checkpoint folder (UCP_FUZZ_FOLDER, its own tag folder) in which one file has other bytes: the first byte of the
// input says which file, in the order of their names.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/formats/format.h"
#include "compiler/formats/recognise/recognise.h"
#include "compiler/support/check.h"
#include "compiler/support/error.h"
#include "tests/fuzz/memory_files.h"
#include "tests/fuzz/target.h"

namespace {

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  UCP_CHECK(!paths.empty(), "no files in {}", folder);
  return paths;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const char* folder = std::getenv("UCP_FUZZ_FOLDER");
  UCP_CHECK(folder != nullptr, "UCP_FUZZ_FOLDER is not set");
  static const std::vector<std::string> paths = FilesIn(folder);
  if (size == 0) return 0;
  ucp::fuzz::OneFileReplaced files(paths[data[0] % paths.size()], ucp::fuzz::Text(data + 1, size - 1));
  auto recognised = ucp::RecogniseAny(files, folder);
  if (!recognised) {
    UCP_CHECK(!ucp::TakeFailure(recognised.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  auto checkpoint = recognised->format->Describe(files, recognised->folder, {}, 1);
  if (!checkpoint) {
    UCP_CHECK(!ucp::TakeFailure(checkpoint.takeError()).message.empty(), "refused without a reason");
    return 0;
  }
  const ucp::Storage& storage = checkpoint->inventory.storage;
  for (const ucp::Record& record : storage.records) {
    const ucp::StoredFile& file = storage.files[record.file.index()];
    UCP_CHECK(record.begin <= file.bytes && record.bytes <= file.bytes - record.begin, "a record outside of `{}`",
              file.path);
  }
  return 0;
}
