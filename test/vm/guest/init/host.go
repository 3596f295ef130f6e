// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/test/vm/guest"
)

// host is the way to the host, a serial port.
type host struct {
	mu      sync.Mutex
	encoder *json.Encoder
}

func openHost(device string) (*host, error) {
	port, err := os.OpenFile(device, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the way to the host: %w", err)
	}
	settings, err := unix.IoctlGetTermios(int(port.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("read the settings of %s: %w", device, err)
	}
	settings.Oflag &^= unix.OPOST // lines end as they are written
	if err := unix.IoctlSetTermios(int(port.Fd()), unix.TCSETS, settings); err != nil {
		return nil, fmt.Errorf("set up %s: %w", device, err)
	}
	return &host{encoder: json.NewEncoder(port)}, nil
}

func (h *host) send(m guest.Message) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.encoder.Encode(m); err != nil {
		return fmt.Errorf("write to the host: %w", err)
	}
	return nil
}

// output passes on the output of a test.
type output struct {
	host *host
	test guest.Test
}

func (o output) Write(p []byte) (int, error) {
	if err := o.host.send(guest.Message{Package: o.test.Package, Output: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}
