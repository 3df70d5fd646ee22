// A file that text is appended to while a run goes on. Text that cannot be written is lost, and reported at the end: a
// run does not fail because somebody watches it.
#pragma once

#include <llvm/Support/Error.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace ucp {

// One thread at a time.
class TextSink {
 public:
  // Takes the file, which is open to be written; `stdout` is not closed. `path` is for messages.
  TextSink(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  void Append(std::string_view text);
  void Flush();

  // The first thing that went wrong, if anything did. Fails with kIo.
  [[nodiscard]] llvm::Error Close();

 private:
  struct Closer {
    void operator()(std::FILE* file) const;
  };

  void NoteError();

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  int error_ = 0;
};

}  // namespace ucp
