#include "compiler/parse/include.h"

#include <fmt/format.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "compiler/parse/parse.h"
#include "compiler/support/error.h"

namespace ucp {
namespace {

namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

// A file on the way from the main spec to the one that is being read.
struct Including {
  std::string written;    // As messages show it.
  std::string canonical;  // Without links, to see cycles.
};

std::optional<std::string> Canonical(const std::string& written) {
  llvm::SmallString<256> real;
  if (fs::real_path(written, real)) return std::nullopt;
  return real.str().str();
}

std::string FolderOf(const std::string& file) {
  llvm::StringRef folder = path::parent_path(file);
  return folder.empty() ? "." : folder.str();
}

class IncludeReader {
 public:
  IncludeReader(Source& source, DiagnosticSink& sink, const IncludableTexts* texts)
      : source_(source), sink_(sink), texts_(texts) {}

  std::optional<ast::File> Run() {
    auto file = ParseSoundItems(source_, sink_);
    if (!file) return std::nullopt;
    // A spec that is gone by now has no folder, and the empty root holds no path.
    if (texts_ == nullptr) root_ = Canonical(FolderOf(source_.path())).value_or("");
    chain_.push_back({source_.path(), Find(source_.path()).value_or("")});
    std::size_t errors_before = sink_.error_count();
    ReadDeclarations(file->declarations);
    if (sink_.error_count() != errors_before) return std::nullopt;
    return file;
  }

 private:
  void ReadDeclarations(std::vector<ast::Declaration>& declarations) {
    std::vector<ast::Declaration> all;
    for (ast::Declaration& declaration : declarations) {
      if (const auto* include = std::get_if<ast::Include>(&declaration.node)) {
        auto file = Open(*include);
        if (!file) continue;
        ReadDeclarations(file->declarations);
        chain_.pop_back();
        std::move(file->declarations.begin(), file->declarations.end(), std::back_inserter(all));
        continue;
      }
      if (auto* layout = std::get_if<ast::Layout>(&declaration.node)) ReadItems(layout->items);
      all.push_back(std::move(declaration));
    }
    declarations = std::move(all);
  }

  void ReadItems(std::vector<ast::Item>& items) {
    std::vector<ast::Item> all;
    for (ast::Item& item : items) {
      if (const auto* include = std::get_if<ast::Include>(&item.node)) {
        std::vector<ast::Item> included = OpenItems(*include);
        std::move(included.begin(), included.end(), std::back_inserter(all));
        continue;
      }
      if (auto* block = std::get_if<ast::Block>(&item.node)) ReadItems(block->items);
      if (auto* when = std::get_if<ast::When>(&item.node)) {
        for (ast::Branch& branch : when->branches) ReadItems(branch.items);
        ReadItems(when->otherwise);
      }
      all.push_back(std::move(item));
    }
    items = std::move(all);
  }

  std::vector<ast::Item> OpenItems(const ast::Include& include) {
    auto file = Open(include);
    if (!file) return {};
    auto* layout = file->declarations.size() == 1 ? std::get_if<ast::Layout>(&file->declarations[0].node) : nullptr;
    std::vector<ast::Item> items;
    if (layout == nullptr || layout->model) {
      Refuse(include.path_range,
             fmt::format("a file that is included among items holds one layout and nothing else, "
                         "and `{}` has {} declarations",
                         include.path, file->declarations.size()),
             "include dims and facts before the layout, from another file");
    } else {
      items = std::move(layout->items);
      ReadItems(items);
    }
    chain_.pop_back();
    return items;
  }

  // The file's tree, and the file at the end of the chain; nothing after reporting.
  std::optional<ast::File> Open(const ast::Include& include) {
    auto including = Locate(include);
    if (!including) return std::nullopt;
    auto begin = Append(include, including->written);
    if (!begin) return std::nullopt;
    auto file = ParseSoundItems(source_, sink_, *begin);
    if (!file) return std::nullopt;
    chain_.push_back(std::move(*including));
    return file;
  }

  std::optional<Including> Locate(const ast::Include& include) {
    SourceRange range = include.path_range;
    if (++count_ > kMaxIncludes) {
      if (count_ == kMaxIncludes + 1) Refuse(range, fmt::format("this spec includes more than {} files", kMaxIncludes));
      return std::nullopt;
    }
    if (chain_.size() > kMaxIncludeDepth) {
      return Refuse(range, fmt::format("files include each other more than {} deep", kMaxIncludeDepth));
    }
    if (!StaysBelow(include.path)) {
      return Refuse(range, fmt::format("`{}` may leave the folder of the spec: an include is relative, and has no `..`",
                                       include.path));
    }
    std::string written = FolderOf(chain_.back().written) + "/" + include.path;
    if (written.starts_with("./")) written.erase(0, 2);
    auto canonical = Find(written);
    if (!canonical) return Refuse(range, fmt::format("there is no file `{}`", written));
    if (!IsBelowRoot(*canonical)) {
      return Refuse(range, fmt::format("`{}` leads out of the folder of the spec", include.path));
    }
    if (IsOpen(*canonical)) return Refuse(range, fmt::format("`{}` includes itself", written));
    return Including{std::move(written), std::move(*canonical)};
  }

  // The file's one name.
  std::optional<std::string> Find(const std::string& written) const {
    if (texts_ == nullptr) return Canonical(written);
    return texts_->contains(written) || written == source_.path() ? std::optional(written) : std::nullopt;
  }

  // Or the folder itself, which is refused where it is read.
  bool IsBelowRoot(const std::string& canonical) const {
    if (texts_ != nullptr) return true;
    llvm::StringRef rest = canonical;
    return !root_.empty() && rest.consume_front(root_) && (rest.empty() || rest.starts_with("/") || root_ == "/");
  }

  bool IsOpen(const std::string& canonical) const {
    return std::any_of(chain_.begin(), chain_.end(),
                       [&](const Including& including) { return including.canonical == canonical; });
  }

  static bool StaysBelow(const std::string& written) {
    if (path::is_absolute(written)) return false;
    return std::none_of(path::begin(written), path::end(written), [](llvm::StringRef part) { return part == ".."; });
  }

  llvm::Expected<std::string> Read(const std::string& written) const {
    if (texts_ != nullptr) return texts_->at(written);
    UCP_ASSIGN_OR_RETURN(const Source file, Source::FromFile(written));
    return std::string(file.text());
  }

  std::optional<std::uint32_t> Append(const ast::Include& include, const std::string& written) {
    auto read = Read(written);
    if (!read) {
      Refuse(include.path_range, TakeFailure(read.takeError()).message);
      return std::nullopt;
    }
    auto begin = source_.Append(written, *read, include.path_range);
    if (begin) return *begin;
    Refuse(include.path_range, TakeFailure(begin.takeError()).message);
    return std::nullopt;
  }

  std::nullopt_t Refuse(SourceRange range, std::string message, std::string hint = {}) {
    sink_.Report(
        {.kind = DiagnosticKind::kBadInclude, .place = range, .message = std::move(message), .hint = std::move(hint)});
    return std::nullopt;
  }

  Source& source_;
  DiagnosticSink& sink_;
  const IncludableTexts* texts_;  // Null: the files on disk.
  std::string root_;              // The folder of the main spec, canonical.
  std::vector<Including> chain_;
  std::size_t count_ = 0;
};

}  // namespace

std::optional<ast::File> ParseWithIncludes(Source& source, DiagnosticSink& sink, const IncludableTexts* texts) {
  return IncludeReader(source, sink, texts).Run();
}

}  // namespace ucp
