// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package offload turns a device's segmentation offloads on and off, through
// the ethtool interface of the kernel (linux/ethtool.h).
package offload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Commands and constants of linux/ethtool.h.
const (
	getStrings     = 0x1b
	getStringInfo  = 0x37
	setFeatures    = 0x3b
	featureStrings = 4
	stringLength   = 32
)

// IsSegmentation reports whether a feature, by the kernel's name for it, lets a
// device take frames that are larger than its MTU.
func IsSegmentation(name string) bool {
	return strings.HasPrefix(name, "tx-") &&
		(strings.HasSuffix(name, "-segmentation") || strings.HasPrefix(name, "tx-gso-"))
}

// SetSegmentation turns every segmentation offload of a device on or off, and the merging of
// received frames on either way. It leaves features as they are that the device can't change.
func SetSegmentation(device string, on bool) error {
	return withSocket(func(fd int) error {
		names, err := features(fd, device)
		if err != nil {
			return err
		}
		return change(fd, device, names, func(name string) (set, value bool) {
			if name == "rx-gro" {
				return true, true
			}
			return IsSegmentation(name), on
		})
	})
}

func withSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer unix.Close(fd)
	return do(fd)
}

// features lists the names of all features; a feature's number is its place.
func features(fd int, device string) ([]string, error) {
	info := make([]byte, 20)
	binary.NativeEndian.PutUint32(info, getStringInfo)
	binary.NativeEndian.PutUint64(info[8:], 1<<featureStrings)
	if err := call(fd, device, info); err != nil {
		return nil, err
	}
	count := binary.NativeEndian.Uint32(info[16:])
	table := make([]byte, 12+int(count)*stringLength)
	binary.NativeEndian.PutUint32(table, getStrings)
	binary.NativeEndian.PutUint32(table[4:], featureStrings)
	binary.NativeEndian.PutUint32(table[8:], count)
	if err := call(fd, device, table); err != nil {
		return nil, err
	}
	names := make([]string, count)
	for i := range names {
		text := table[12+i*stringLength:][:stringLength]
		name, _, _ := bytes.Cut(text, []byte{0})
		names[i] = string(name)
	}
	return names, nil
}

// change sets each feature whose set is true in the result of choose.
func change(fd int, device string, names []string, choose func(name string) (set, value bool)) error {
	blocks := (len(names) + 31) / 32
	request := make([]byte, 8+blocks*8)
	binary.NativeEndian.PutUint32(request, setFeatures)
	binary.NativeEndian.PutUint32(request[4:], uint32(blocks))
	for i, name := range names {
		set, value := choose(name)
		if !set {
			continue
		}
		block, bit := request[8+i/32*8:], uint32(1)<<(i%32)
		binary.NativeEndian.PutUint32(block, binary.NativeEndian.Uint32(block)|bit)
		if value {
			binary.NativeEndian.PutUint32(block[4:], binary.NativeEndian.Uint32(block[4:])|bit)
		}
	}
	return call(fd, device, request)
}

// call issues SIOCETHTOOL with data, which the kernel may write to.
func call(fd int, device string, data []byte) error {
	if len(device) >= unix.IFNAMSIZ {
		return fmt.Errorf("device name %q is too long", device)
	}
	var request struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(request.name[:], device)
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&data[0])
	request.data = unsafe.Pointer(&data[0])
	_, _, errno := unix.Syscall(
		unix.SYS_IOCTL,
		uintptr(fd),
		unix.SIOCETHTOOL,
		uintptr(unsafe.Pointer(&request)),
	)
	if errno != 0 {
		return fmt.Errorf("ask ethtool of %s: %w", device, errno)
	}
	return nil
}
