// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package blocking reads and writes sockets with plain blocking system calls,
// past the poller and the scheduler of the Go runtime: for round trips, waking
// a goroutine costs as much as the path that is measured.
package blocking

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// quiet is how long a read may keep the runtime from stopping its threads.
const quiet = 100 * time.Millisecond

// Socket is a socket in blocking mode. It is for one goroutine, which New locks to
// its thread; only ShutDown may be called by others.
type Socket struct {
	file *os.File
	fd   int
}

// Conn is a connection of package net.
type Conn interface {
	File() (*os.File, error)
	Close() error
}

// New takes over the socket of a connection, which it closes: as long as the
// poller knew the socket, each packet would wake a thread of the runtime as well.
// Close releases the socket, and the thread.
func New(conn Conn) (*Socket, error) {
	file, err := conn.File()
	if err != nil {
		return nil, fmt.Errorf("duplicate socket: %w", err)
	}
	if err := conn.Close(); err != nil {
		file.Close()
		return nil, fmt.Errorf("take socket from the poller: %w", err)
	}
	fd := int(file.Fd())
	timeout := syscall.NsecToTimeval(quiet.Nanoseconds())
	if err := syscall.SetNonblock(fd, false); err != nil {
		file.Close()
		return nil, fmt.Errorf("make socket blocking: %w", err)
	}
	if err := syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout); err != nil {
		file.Close()
		return nil, fmt.Errorf("bound reads of socket: %w", err)
	}
	runtime.LockOSThread()
	return &Socket{file, fd}, nil
}

// Close releases the descriptor and the thread.
func (s *Socket) Close() error {
	runtime.UnlockOSThread()
	return s.file.Close()
}

// ShutDown ends reads and writes, also waiting ones.
func (s *Socket) ShutDown() { _ = syscall.Shutdown(s.fd, syscall.SHUT_RDWR) }

// Read waits for data. The end of the stream is io.EOF. In between the waits
// the runtime gets its turn.
func (s *Socket) Read(data []byte) (int, error) {
	for {
		n, errno := s.call(syscall.SYS_READ, data)
		switch {
		case errno == syscall.EAGAIN, errno == syscall.EINTR:
			runtime.Gosched()
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// Write sends data, as much as fits.
func (s *Socket) Write(data []byte) (int, error) {
	for {
		n, errno := s.call(syscall.SYS_WRITE, data)
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			return 0, errno
		}
		return n, nil
	}
}

func (s *Socket) call(number uintptr, data []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(
		number,
		uintptr(s.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(data))),
		uintptr(len(data)),
	)
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
