#include "compiler/catalogue/config_file.h"

#include <llvm/Support/JSON.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "compiler/support/error.h"

namespace ucp {
namespace {

constexpr std::size_t kMaxDepth = 64;

// The JSON reader calls itself for what is nested, so hostile nesting is refused before it starts.
bool NestsTooDeep(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && depth > 0) --depth;
    if (depth > kMaxDepth) return true;
  }
  return false;
}

bool IsName(llvm::StringRef key) {
  bool starts = !key.empty() && std::isdigit(static_cast<unsigned char>(key.front())) == 0;
  return starts &&
         std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::optional<FactValue> ToFact(const llvm::json::Value& value) {
  if (auto boolean = value.getAsBoolean()) return FactValue{*boolean};
  if (value.kind() == llvm::json::Value::Number) {
    if (auto integer = value.getAsInteger()) return FactValue{*integer};  // Also 64.0, as Python's == has it.
    return FactValue{*value.getAsNumber()};
  }
  if (auto text = value.getAsString()) return FactValue{text->str()};
  const llvm::json::Array* array = value.getAsArray();
  if (array == nullptr) return std::nullopt;
  std::vector<FactValue> list;
  for (const llvm::json::Value& item : *array) {
    auto element = ToFact(item);
    if (!element) return std::nullopt;
    list.push_back(std::move(*element));
  }
  return FactValue{std::move(list)};
}

void AddObject(const std::string& prefix, const llvm::json::Object& object, const std::string& where,
               std::map<std::string, Fact>& facts) {
  for (const auto& [key, value] : object) {
    llvm::StringRef name = key;
    if (!IsName(name)) continue;
    std::string path = prefix + "." + name.str();
    if (const llvm::json::Object* inner = value.getAsObject()) {
      AddObject(path, *inner, where, facts);
    } else if (auto fact = ToFact(value)) {
      facts[path] = {std::move(*fact), where};
    }
  }
}

}  // namespace

llvm::Error AddConfig(ReadableFileSystem& files, const std::string& path, std::map<std::string, Fact>& facts) {
  UCP_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(files, path, kMaxConfigBytes));
  return AddConfig({path, std::move(text)}, facts);
}

llvm::Error AddConfig(const NamedText& file, std::map<std::string, Fact>& facts) {
  const auto& [path, text] = file;
  if (NestsTooDeep(text)) {
    return Fail(ErrorCode::kBadData, "`{}` is nested deeper than {}; is this a model's configuration?", path,
                kMaxDepth);
  }
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed) {
    return Fail(ErrorCode::kBadData, "`{}` is not valid JSON: {}", path, llvm::toString(parsed.takeError()));
  }
  const llvm::json::Object* object = parsed->getAsObject();
  if (object == nullptr) {
    return Fail(ErrorCode::kBadData, "`{}` holds no JSON object; is this a model's configuration?", path);
  }
  AddObject("config", *object, path, facts);
  return llvm::Error::success();
}

llvm::Error AddConfigBeside(ReadableFileSystem& files, const std::vector<std::string>& folders,
                            std::map<std::string, Fact>& facts) {
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    std::string path = JoinPath(folder, "config.json");
    UCP_ASSIGN_OR_RETURN(PathKind kind, files.Kind(path));
    if (kind == PathKind::kFile) return AddConfig(files, path, facts);
  }
  return llvm::Error::success();
}

}  // namespace ucp
