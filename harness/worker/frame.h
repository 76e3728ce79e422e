// Frame: the unit in which the engine and a worker program talk, over two descriptors of their own.
//
// On the wire: payload length as 4 bytes little-endian, 1 byte kind, payload (JSON text that this
// file does not look into). Guarantees: partial reads and writes and EINTR are dealt with; a frame
// is written by a single write(2) where the kernel takes it whole, so frames of up to kAtomicBytes
// from several threads of one worker never mix. Longer ones need one writer at a time. Refuses:
// unknown kinds and payloads above kPayloadBytesMax; a stream is of no use after that. Use
// (worker):  write_frame(kAnswerFd, FrameKind::kHello, versions);
//                while (read_frame(kRequestFd, &frame) == ReadStatus::kFrame) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardfuzz {

inline constexpr int kRequestFd = 3;  // in the worker: requests are read here
inline constexpr int kAnswerFd = 4;   // in the worker: everything else is written here
inline constexpr std::size_t kPayloadBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::size_t kAtomicBytes = 4096;  // PIPE_BUF of Linux
// Before a request's JSON: this run takes PyTorch as it is (harness/real/worker_main.cc).
inline constexpr std::string_view kUnaided = "unaided\n";

enum class FrameKind : char {
  kHello = 'H',      // worker, once, when it is ready; JSON with versions
  kRequest = 'R',    // engine
  kAnswer = 'A',     // worker, one for each request
  kProgress = 'P',   // worker, any time; remembered as the last known place
  kLastWords = 'L',  // worker's signal handler, before it dies
  kQuit = 'Q',       // engine: leave now
};

[[nodiscard]] bool is_frame_kind(char kind);

struct Frame {
  FrameKind kind = FrameKind::kQuit;
  std::string payload;
  bool operator==(const Frame&) const = default;
};

// The bytes of a frame. The payload must not be above kPayloadBytesMax (checked).
[[nodiscard]] std::string encode_frame(FrameKind kind, std::string_view payload);

// Takes bytes as they come and gives frames.
class FrameDecoder {
 public:
  enum class Next { kFrame, kNeedMore, kBroken };

  void feed(const char* data, std::size_t byte_count) { buffer_.append(data, byte_count); }
  // kFrame: `*frame` is set. kBroken: error() says why, and it stays broken.
  [[nodiscard]] Next next(Frame* frame);
  [[nodiscard]] const std::string& error() const { return error_; }
  // Bytes of a frame that has begun and has not ended.
  [[nodiscard]] std::size_t pending_bytes() const { return buffer_.size() - offset_; }

 private:
  std::string buffer_;
  std::size_t offset_ = 0;  // buffer_ before this has been handed out
  std::string error_;
};

// kEnd: the other side closed between two frames. kCut: it closed within a frame.
enum class ReadStatus { kFrame, kEnd, kCut, kBroken, kFailed };

// Both block, and are for descriptors without O_NONBLOCK (the worker's side).
[[nodiscard]] ReadStatus read_frame(int fd, Frame* frame);
// False: the other side is gone, or the payload is above kPayloadBytesMax.
[[nodiscard]] bool write_frame(int fd, FrameKind kind, std::string_view payload);

// For signal handlers: no allocation, no lock; cuts the text so that the frame is atomic.
void write_last_words(int fd, const char* text, std::size_t byte_count) noexcept;

}  // namespace shardfuzz
