#include "runtime/report/text_sink.h"

#include <stdio_ext.h>

#include <cerrno>
#include <filesystem>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
namespace {

// A file that is not there, that is empty, or that cannot be read (which opening it for writing will speak of); a
// device or a pipe.
bool MayReplace(const std::string& path, std::string_view beginning) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return true;
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return true;
  std::string found(beginning.size(), '\0');
  found.resize(std::fread(found.data(), 1, found.size(), file));
  std::fclose(file);
  return found.empty() || found == beginning;
}

}  // namespace

void TextSink::Closer::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
}

llvm::Expected<TextSink> TextSink::Open(const std::string& path, std::string_view beginning) {
  if (path != "-" && !MayReplace(path, beginning)) {
    return Fail(ErrorCode::kUsage, "`{}` is there and is no file of an earlier run; name another one", path);
  }
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "we");
  if (file == nullptr) return Fail(ErrorCode::kIo, "cannot write `{}`: {}", path, SystemReason(errno));
  return TextSink(path, file);
}

void TextSink::Append(std::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) NoteError();
}

void TextSink::Flush() {
  if (error_ == 0 && std::fflush(file_.get()) != 0) NoteError();
}

void TextSink::NoteError() { error_ = errno == 0 ? EIO : errno; }

llvm::Error TextSink::Close() {
  Flush();
  std::FILE* file = file_.release();
  if (file != stdout && std::fclose(file) != 0 && error_ == 0) NoteError();
  if (file == stdout && error_ != 0) {  // It is told once, here.
    __fpurge(stdout);
    std::clearerr(stdout);
  }
  if (error_ == 0 || (file == stdout && error_ == EPIPE)) return llvm::Error::success();
  return Fail(ErrorCode::kIo, "not all could be written to `{}`: {}", path_, SystemReason(error_));
}

}  // namespace ucp
