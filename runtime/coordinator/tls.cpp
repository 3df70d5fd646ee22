#include "runtime/coordinator/tls.h"

#ifdef UCP_HAS_OPENSSL
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <array>
#include <cstdint>
#include <new>
#include <utility>

#include "compiler/files/readable_file_system.h"
#include "compiler/support/error.h"
#else
#include "compiler/support/check.h"
#endif

namespace ucp {

#ifdef UCP_HAS_OPENSSL
namespace {

constexpr std::uint64_t kMostPemBytes = std::uint64_t{1} << 20;
constexpr std::size_t kRecordBytes = std::size_t{1} << 14;

// The first one of this thread; the others follow from it.
std::string ReasonOfOpenSsl() {
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  ERR_clear_error();
  return reason == nullptr ? "the connection or the file ends early" : reason;
}

template <typename T>
T* OrNoMemory(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

// Nobody is asked for the password of a key.
int NoPassword(char* /*text*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

// Says by our own words that a file cannot be read.
llvm::Error CheckPem(const std::string& path) { return ReadWholeFile(RealFiles(), path, kMostPemBytes).takeError(); }

}  // namespace

struct TlsSettings::Context {
  explicit Context(const SSL_METHOD* method) : context(OrNoMemory(SSL_CTX_new(method))) {
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, NoPassword);
    ERR_clear_error();
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { SSL_CTX_free(context); }

  SSL_CTX* context;
};

struct TlsSession::State {
  explicit State(const TlsSettings& settings)
      : session(OrNoMemory(SSL_new(settings.context_->context))), in(BIO_new(BIO_s_mem())), out(BIO_new(BIO_s_mem())) {
    SSL_set_bio(session, in, out);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { SSL_free(session); }

  void TakeOut(std::string& sending) const {
    std::array<char, kRecordBytes> bytes{};
    for (int count = 0; (count = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()))) > 0;) {
      sending.append(bytes.data(), static_cast<std::size_t>(count));
    }
  }

  SSL* session;  // It owns both of these.
  BIO* in;
  BIO* out;
  bool has_failed = false;  // Not even that is answered.
};

bool HasTls() { return true; }

llvm::Expected<TlsSettings> TlsSettings::OfCoordinator(const std::string& certificate, const std::string& key) {
  UCP_RETURN_IF_ERROR(CheckPem(certificate));
  UCP_RETURN_IF_ERROR(CheckPem(key));
  auto context = std::make_shared<Context>(TLS_server_method());
  if (SSL_CTX_use_certificate_chain_file(context->context, certificate.c_str()) != 1) {
    return Fail(ErrorCode::kUsage, "`{}` is not a certificate in PEM: {}", certificate, ReasonOfOpenSsl());
  }
  const bool is_its_key = SSL_CTX_use_PrivateKey_file(context->context, key.c_str(), SSL_FILETYPE_PEM) == 1 &&
                          SSL_CTX_check_private_key(context->context) == 1;  // Also of a key of another kind.
  if (is_its_key) return TlsSettings(context);
  return Fail(ErrorCode::kUsage, "`{}` is not the key of `{}`, in PEM and without a password: {}", key, certificate,
              ReasonOfOpenSsl());
}

llvm::Expected<TlsSettings> TlsSettings::OfClient(const std::string& authorities) {
  UCP_RETURN_IF_ERROR(CheckPem(authorities));
  auto context = std::make_shared<Context>(TLS_client_method());
  if (SSL_CTX_load_verify_locations(context->context, authorities.c_str(), nullptr) != 1) {
    return Fail(ErrorCode::kUsage, "`{}` has no certificate in PEM: {}", authorities, ReasonOfOpenSsl());
  }
  SSL_CTX_set_verify(context->context, SSL_VERIFY_PEER, nullptr);
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context->context), X509_V_FLAG_PARTIAL_CHAIN);
  return TlsSettings(context);
}

TlsSession::TlsSession(const TlsSettings& settings) : state_(std::make_shared<State>(settings)) {
  SSL_set_accept_state(state_->session);
}

TlsSession::TlsSession(const TlsSettings& settings, const std::string& host)
    : state_(std::make_shared<State>(settings)) {
  SSL_set_connect_state(state_->session);
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(state_->session), host.c_str()) != 1) {
    if (SSL_set1_host(state_->session, host.c_str()) != 1) throw std::bad_alloc();
    SSL_set_tlsext_host_name(state_->session, host.c_str());
  }
  ERR_clear_error();
}

llvm::Error TlsSession::Take(std::string_view bytes, std::string& received, std::string& sending) {
  ERR_clear_error();
  BIO_write(state_->in, bytes.data(), static_cast<int>(bytes.size()));
  std::array<char, kRecordBytes> text{};
  int count = 0;
  while ((count = SSL_read(state_->session, text.data(), static_cast<int>(text.size()))) > 0) {
    received.append(text.data(), static_cast<std::size_t>(count));
  }
  const int why = SSL_get_error(state_->session, count);
  if (why == SSL_ERROR_ZERO_RETURN) return MakeError(ErrorCode::kIo, "the other side has closed the connection");
  if (why == SSL_ERROR_WANT_READ) {
    state_->TakeOut(sending);
    return llvm::Error::success();
  }
  state_->has_failed = true;
  const std::int64_t verified = SSL_get_verify_result(state_->session);
  const std::string reason = ReasonOfOpenSsl();
  if (verified == X509_V_OK) return Fail(ErrorCode::kBadData, "it does not speak TLS as this side does: {}", reason);
  return Fail(ErrorCode::kBadData, "its certificate is not taken: {}", X509_verify_cert_error_string(verified));
}

bool TlsSession::is_ready() const { return SSL_is_init_finished(state_->session) == 1; }

void TlsSession::Give(std::string_view text, std::string& sending) {
  if (state_->has_failed) return;
  SSL_write(state_->session, text.data(), static_cast<int>(text.size()));
  ERR_clear_error();
  state_->TakeOut(sending);
}

void TlsSession::End(std::string& sending) {
  if (state_->has_failed) return;
  SSL_shutdown(state_->session);
  ERR_clear_error();
  state_->TakeOut(sending);
}

#else

struct TlsSettings::Context {};
struct TlsSession::State {};

bool HasTls() { return false; }
llvm::Expected<TlsSettings> TlsSettings::OfCoordinator(const std::string& /*certificate*/, const std::string& /*key*/) {
  UCP_UNREACHABLE();
}
llvm::Expected<TlsSettings> TlsSettings::OfClient(const std::string& /*authorities*/) { UCP_UNREACHABLE(); }
TlsSession::TlsSession(const TlsSettings& /*settings*/) { UCP_UNREACHABLE(); }
TlsSession::TlsSession(const TlsSettings& /*settings*/, const std::string& /*host*/) { UCP_UNREACHABLE(); }
llvm::Error TlsSession::Take(std::string_view /*bytes*/, std::string& /*received*/, std::string& /*sending*/) {
  UCP_UNREACHABLE();
}
bool TlsSession::is_ready() const { UCP_UNREACHABLE(); }
void TlsSession::Give(std::string_view /*text*/, std::string& /*sending*/) { UCP_UNREACHABLE(); }
void TlsSession::End(std::string& /*sending*/) { UCP_UNREACHABLE(); }

#endif

}  // namespace ucp
