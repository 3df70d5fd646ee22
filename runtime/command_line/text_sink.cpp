#include "runtime/command_line/text_sink.h"

#include <stdio_ext.h>

#include <cerrno>

#include "compiler/support/error.h"
#include "compiler/support/system_reason.h"

namespace ucp {
void TextSink::Closer::operator()(std::FILE* file) const {
  if (file != stdout) std::fclose(file);
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
  if (file == stdout && error_ != 0) {  // The error is reported once, here.
    __fpurge(stdout);
    std::clearerr(stdout);
  }
  if (error_ == 0 || (file == stdout && error_ == EPIPE)) return llvm::Error::success();
  return Fail(ErrorCode::kIo, "not all could be written to `{}`: {}", path_, SystemReason(error_));
}

}  // namespace ucp
