#include "harness/worker/frame.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "harness/base/check.h"

namespace shardfuzz {
namespace {

// Handed-out bytes are dropped from the buffer only now and then: erasing moves all that follows.
constexpr std::size_t kCompactBytes = std::size_t{1} << 16;

void put_header(char* to, FrameKind kind, std::size_t payload_bytes) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<char>((payload_bytes >> (8 * i)) & 0xff);
  to[4] = static_cast<char>(kind);
}

std::size_t payload_bytes_of(const char* header) {
  std::size_t bytes = 0;
  for (int i = 3; i >= 0; --i) bytes = bytes << 8 | static_cast<unsigned char>(header[i]);
  return bytes;
}

// What is wrong with a header, or "".
std::string refuse_header(const char* header) {
  if (!is_frame_kind(header[4])) {
    return fmt::format("unknown frame kind 0x{:02x}", static_cast<unsigned char>(header[4]));
  }
  if (const auto bytes = payload_bytes_of(header); bytes > kPayloadBytesMax) {
    return fmt::format("a frame of {} bytes, above the limit of {}", bytes, kPayloadBytesMax);
  }
  return "";
}

// Reads exactly `byte_count` bytes unless the stream ends; -1 on an error.
ssize_t read_fully(int fd, char* to, std::size_t byte_count) {
  std::size_t done = 0;
  while (done < byte_count) {
    const ssize_t got = read(fd, to + done, byte_count - done);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

bool write_fully(int fd, const char* from, std::size_t byte_count) noexcept {
  while (byte_count > 0) {
    const ssize_t put = write(fd, from, byte_count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    from += put;
    byte_count -= static_cast<std::size_t>(put);
  }
  return true;
}

}  // namespace

bool is_frame_kind(char kind) {
  switch (static_cast<FrameKind>(kind)) {
    case FrameKind::kHello:
    case FrameKind::kRequest:
    case FrameKind::kAnswer:
    case FrameKind::kProgress:
    case FrameKind::kLastWords:
    case FrameKind::kQuit:
      return true;
  }
  return false;
}

std::string encode_frame(FrameKind kind, std::string_view payload) {
  SHARDFUZZ_CHECK(payload.size() <= kPayloadBytesMax, "a payload of {} bytes", payload.size());
  std::string bytes(kFrameHeaderBytes, '\0');
  bytes.reserve(kFrameHeaderBytes + payload.size());
  put_header(bytes.data(), kind, payload.size());
  bytes.append(payload);
  return bytes;
}

FrameDecoder::Next FrameDecoder::next(Frame* frame) {
  if (!error_.empty()) return Next::kBroken;
  if (pending_bytes() < kFrameHeaderBytes) return Next::kNeedMore;
  const char* header = buffer_.data() + offset_;
  error_ = refuse_header(header);
  if (!error_.empty()) return Next::kBroken;
  const std::size_t payload_bytes = payload_bytes_of(header);
  if (pending_bytes() < kFrameHeaderBytes + payload_bytes) return Next::kNeedMore;
  frame->kind = static_cast<FrameKind>(header[4]);
  frame->payload.assign(header + kFrameHeaderBytes, payload_bytes);
  offset_ += kFrameHeaderBytes + payload_bytes;
  if (offset_ == buffer_.size() || offset_ >= kCompactBytes) {
    buffer_.erase(0, offset_);
    offset_ = 0;
  }
  return Next::kFrame;
}

ReadStatus read_frame(int fd, Frame* frame) {
  char header[kFrameHeaderBytes];
  const ssize_t got = read_fully(fd, header, sizeof header);
  if (got < 0) return ReadStatus::kFailed;
  if (got == 0) return ReadStatus::kEnd;
  if (got < static_cast<ssize_t>(sizeof header)) return ReadStatus::kCut;
  if (!refuse_header(header).empty()) return ReadStatus::kBroken;
  frame->kind = static_cast<FrameKind>(header[4]);
  frame->payload.resize(payload_bytes_of(header));
  const ssize_t rest = read_fully(fd, frame->payload.data(), frame->payload.size());
  if (rest < 0) return ReadStatus::kFailed;
  return rest == static_cast<ssize_t>(frame->payload.size()) ? ReadStatus::kFrame
                                                             : ReadStatus::kCut;
}

bool write_frame(int fd, FrameKind kind, std::string_view payload) {
  if (payload.size() > kPayloadBytesMax) return false;
  const std::string bytes = encode_frame(kind, payload);
  return write_fully(fd, bytes.data(), bytes.size());
}

void write_last_words(int fd, const char* text, std::size_t byte_count) noexcept {
  const int errno_before = errno;  // a handler that returns must not change it
  char bytes[kAtomicBytes];
  byte_count = std::min(byte_count, sizeof bytes - kFrameHeaderBytes);
  put_header(bytes, FrameKind::kLastWords, byte_count);
  std::memcpy(bytes + kFrameHeaderBytes, text, byte_count);
  (void)write_fully(fd, bytes, kFrameHeaderBytes + byte_count);
  errno = errno_before;
}

}  // namespace shardfuzz
