// print_archives FILE…: one line of JSON for each `.pt` file, {"read": value} or {"refused": sentence}, in the words of
// containers.py, which prints what torch.load makes of the same file. On stderr the most memory that all of it took.
// For the tests with the real engine.
#include <fmt/format.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

#include <bit>
#include <fstream>
#include <unordered_map>

#include "compiler/files/readable_file_system.h"
#include "compiler/formats/pytorch/archive/archive_reader.h"
#include "compiler/formats/pytorch/archive/small_tensor_reader.h"
#include "compiler/formats/pytorch/values/value_access.h"
#include "compiler/support/checksum.h"
#include "compiler/support/error.h"

namespace ucp::pytorch {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using Json = llvm::json::Value;

std::string Hex(std::string_view bytes) { return llvm::toHex(llvm::StringRef(bytes.data(), bytes.size()), true); }

// One object of Python is printed once, and then as a reference: memos make trees of any size.
class Printer {
 public:
  Printer(const ReadableFile& file, const Archive& archive) : file_(file), archive_(archive) {}

  Json Print(const ValuePtr& value) {
    if (value->is_none()) return nullptr;
    if (const auto truth = AsBool(*value)) return *truth;
    if (const auto number = AsInteger(*value)) return Object{{"int", fmt::format("{}", *number)}};
    if (const auto* number = value->As<BigInteger>()) return Object{{"long", Hex(number->bytes)}};
    if (const auto* number = value->As<double>()) {
      return Object{{"double", fmt::format("{:016x}", std::bit_cast<std::uint64_t>(*number))}};
    }
    if (const auto text = AsText(*value)) return Object{{"text", Hex(*text)}};
    if (const auto bytes = AsBytes(*value)) return Object{{"bytes", Hex(*bytes)}};
    if (const auto dtype = AsDType(*value)) return Object{{"dtype", std::string(Name(*dtype))}};
    if (const auto* tuple = value->As<Tuple>(); tuple != nullptr && tuple->items.empty()) {
      return Object{{"tuple", Array{}}};  // There is one in Python.
    }
    const auto [place, is_new] = numbers_.try_emplace(value.get(), static_cast<std::int64_t>(numbers_.size()));
    if (!is_new) return Object{{"again", place->second}};
    return PrintOnce(value);
  }

 private:
  Json PrintOnce(const ValuePtr& value) {
    if (const auto* list = value->As<List>()) return Object{{"list", PrintAll(list->items)}};
    if (const auto* tuple = value->As<Tuple>()) return Object{{"tuple", PrintAll(tuple->items)}};
    if (const auto* dict = value->As<Dict>()) return Object{{"dict", PrintEntries(dict->entries)}};
    if (const auto* tensor = value->As<Tensor>()) return PrintTensor(*tensor);
    if (IsOrderedDict(*value)) return PrintOrderedDict(*value);
    if (ClassName(*value) == "torch.Size") {
      if (const auto sizes = AsIntegers(*value)) return Object{{"size", Array(*sizes)}};
    }
    return Object{{"opaque", ucp::pytorch::Print(*value).substr(0, 80)}};
  }

  Json PrintOrderedDict(const Value& value) {
    Object object{{"ordered", PrintEntries(*Entries(value))}};
    if (const auto* attributes = Attributes(value)) object["attributes"] = PrintEntries(*attributes);
    return object;
  }

  Json PrintAll(const std::vector<ValuePtr>& items) {
    Array printed;
    for (const ValuePtr& item : items) printed.push_back(Print(item));
    return printed;
  }

  Json PrintEntries(const std::vector<Entry>& entries) {
    Array printed;
    for (const Entry& entry : entries) {
      Json key = Print(entry.key);
      printed.push_back(Array{std::move(key), Print(entry.value)});
    }
    return printed;
  }

  Json PrintTensor(const Tensor& tensor) {
    Object object{{"tensor", std::string(Name(tensor.dtype))},
                  {"sizes", Array(tensor.sizes)},
                  {"parameter", tensor.is_parameter},
                  {"requires_grad", tensor.requires_grad}};
    auto bytes = reader_.Read(file_, archive_, tensor);
    if (bytes) {
      object["crc32"] = Crc32(*bytes);
    } else {
      object["unread"] = TakeFailure(bytes.takeError()).message;
    }
    return object;
  }

  const ReadableFile& file_;
  const Archive& archive_;
  SmallTensorReader reader_;
  std::unordered_map<const Value*, std::int64_t> numbers_;  // In the order of their printing.
};

Json PrintFile(ReadableFileSystem& files, const std::string& path) {
  auto file = files.OpenForReading(path);
  if (!file) return Object{{"refused", TakeFailure(file.takeError()).message}};
  auto archive = ReadArchive(**file);
  if (!archive) return Object{{"refused", TakeFailure(archive.takeError()).message}};
  return Object{{"read", Printer(**file, *archive).Print(archive->root())}};
}

// "VmHWM:	  123 kB": of this program alone, unlike getrusage(), which counts what ran before it in the process.
std::string PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return line;
  }
  return "VmHWM: unknown";
}

}  // namespace
}  // namespace ucp::pytorch

int main(int count, char** arguments) {
  ucp::ReadableFileSystem& files = ucp::RealFiles();
  for (int i = 1; i < count; ++i) {
    llvm::outs() << ucp::pytorch::PrintFile(files, arguments[i]) << "\n";
    llvm::outs().flush();
  }
  llvm::errs() << ucp::pytorch::PeakMemory() << "\n";
  return 0;
}
