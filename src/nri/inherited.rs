//! The connected socket that containerd leaves to a plugin it launches.

// The one place that takes over a file descriptor by its number.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Takes over the stream socket of that number.
///
/// # Errors
/// The number is no open file descriptor, or no socket.
pub(super) fn socket(fd: RawFd) -> io::Result<UnixStream> {
    if fd <= 2 {
        let text = format!("{fd} is a standard stream: expected a descriptor above 2");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    // SAFETY: F_GETFD reads the flags of a number and touches no memory; a number that is not open is an error.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, as was just seen, and above the standard streams; the runtime left it to us alone, and
    // the caller asks once, before anything else has opened a file that could have got this number.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    let stream = UnixStream::from(owned);
    // Fails where it is not a socket. The stream is then dropped and with it a descriptor nobody meant.
    stream.peer_addr()?;
    stream.set_nonblocking(true)?;
    close_on_exec(&stream)?;
    Ok(stream)
}

fn close_on_exec(stream: &UnixStream) -> io::Result<()> {
    nix::fcntl::fcntl(stream, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn a_left_socket_is_taken_over() {
        let (ours, _theirs) = UnixStream::pair().unwrap();

        assert!(socket(ours.into_raw_fd()).is_ok());
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();

        assert_eq!(socket(file.into_raw_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
        assert_eq!(socket(1 << 20).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(socket(1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
