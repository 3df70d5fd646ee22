// The bytes of a spec as ANTLR's lexer reads them: every byte is one symbol. So offsets of tokens are byte offsets,
// nothing is copied or decoded, and nothing throws.
#pragma once

#include <antlr4-runtime.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace ucp {

class ByteStream : public antlr4::CharStream {
 public:
  // `text` must outlive the stream.
  explicit ByteStream(std::string_view text) : text_(text) {}

  void consume() override { ++position_; }
  std::size_t LA(ssize_t ahead) override {
    auto at = static_cast<ssize_t>(position_) + (ahead > 0 ? ahead - 1 : ahead);
    if (ahead == 0 || at < 0 || at >= static_cast<ssize_t>(text_.size())) return EOF;
    return static_cast<unsigned char>(text_[static_cast<std::size_t>(at)]);
  }
  ssize_t mark() override { return 0; }
  void release(ssize_t) override {}
  std::size_t index() override { return position_; }
  void seek(std::size_t index) override { position_ = std::min(index, text_.size()); }
  std::size_t size() override { return text_.size(); }
  std::string getSourceName() const override { return "spec"; }
  std::string getText(const antlr4::misc::Interval& interval) override {
    if (interval.a < 0 || interval.b < interval.a) return {};
    auto begin = std::min(static_cast<std::size_t>(interval.a), text_.size());
    return std::string(text_.substr(begin, static_cast<std::size_t>(interval.b - interval.a + 1)));
  }
  std::string toString() const override { return std::string(text_); }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace ucp
