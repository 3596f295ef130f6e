// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package wayin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// From linux/io_uring.h.
const (
	opConnect       = 16
	enterGetEvents  = 1
	offsetSubmitted = 0
	offsetCompleted = 0x8000000
	offsetEntries   = 0x10000000
	entrySize       = 64
)

// ringOffsets are struct io_sqring_offsets and struct io_cqring_offsets.
type ringOffsets struct {
	head, tail, mask, entries, a, b, c, d uint32
	userAddr                              uint64
}

// ringParams is struct io_uring_params.
type ringParams struct {
	submitted, completed, flags, cpu, idle, features, wq uint32
	_                                                    [3]uint32
	submit, complete                                     ringOffsets
}

// connectByRing connects by a request in the ring of io_uring(7).
func connectByRing(fd int, to netip.AddrPort) error {
	var p ringParams
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if errors.Is(errno, unix.ENOSYS) || errors.Is(errno, unix.EPERM) {
		return ErrAbsent // turned off
	}
	if errno != 0 {
		return fmt.Errorf("io_uring_setup: %w", errno)
	}
	defer unix.Close(int(ring))
	r, err := mapRing(int(ring), p)
	if err != nil {
		return err
	}
	address := rawAddress(to)
	r.entries[0] = opConnect
	binary.NativeEndian.PutUint32(r.entries[4:], uint32(fd))
	binary.NativeEndian.PutUint64(r.entries[8:], uint64(len(address)))
	binary.NativeEndian.PutUint64(r.entries[16:], uint64(uintptr(unsafe.Pointer(&address[0]))))
	binary.NativeEndian.PutUint32(r.submit[p.submit.tail:], 1)
	_, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, enterGetEvents, 0, 0)
	runtime.KeepAlive(address)
	if errno != 0 {
		return fmt.Errorf("io_uring_enter: %w", errno)
	}
	if result := int32(binary.NativeEndian.Uint32(r.complete[p.complete.b+8:])); result < 0 {
		return unix.Errno(-result)
	}
	return nil
}

// ringMemory is the memory that a process shares with the kernel for one request. The place of the
// request in the array of submissions is the first: the kernel has set it to zero.
type ringMemory struct{ submit, complete, entries []byte }

// mapRing maps the memory. Fields a to c of the offsets are flags, dropped and array of
// submissions, and overflow and entries of completions.
func mapRing(ring int, p ringParams) (r ringMemory, err error) {
	if r.submit, err = shared(ring, offsetSubmitted, p.submit.c+4*p.submitted); err != nil {
		return r, err
	}
	if r.complete, err = shared(ring, offsetCompleted, p.complete.b+16*p.completed); err != nil {
		return r, err
	}
	r.entries, err = shared(ring, offsetEntries, entrySize*p.submitted)
	return r, err
}

func shared(ring int, offset int64, size uint32) ([]byte, error) {
	return unix.Mmap(ring, offset, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// rawAddress is struct sockaddr_in or struct sockaddr_in6.
func rawAddress(to netip.AddrPort) []byte {
	if to.Addr().Is4() {
		b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
		b = binary.BigEndian.AppendUint16(b, to.Port())
		return append(append(b, to.Addr().AsSlice()...), make([]byte, 8)...)
	}
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	b = binary.BigEndian.AppendUint16(b, to.Port())
	b = append(b, make([]byte, 4)...)
	return append(append(b, to.Addr().AsSlice()...), make([]byte, 4)...)
}
