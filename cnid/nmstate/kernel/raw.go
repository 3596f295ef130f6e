// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/nmstate/snapshot"
	"github.com/alioth-net/alioth/cnid/nmstate/spaces"
)

// Dump returns all objects of a kind, each as a message.
func (k *Kernel) Dump(ctx context.Context, kind int, data ...nl.NetlinkRequestData) ([][]byte, error) {
	return k.dump(ctx, kind, data...)
}

// Settings returns the settings of a device below /proc/sys/net, by path. A device that is
// gone has none.
func (k *Kernel) Settings(name string) (map[string]string, error) {
	all := map[string]string{}
	err := k.space.Do(func(ns.NetNS) error {
		for _, folder := range []string{"ipv4/conf", "ipv6/conf", "ipv4/neigh", "ipv6/neigh"} {
			if err := readSettings(filepath.Join(hostdev.SettingsRoot, folder, name), all); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// readSettings reads the files of a folder that can be written: the others are states, such as
// mc_forwarding. There are hundreds for each device, so nothing else is done with a file.
func readSettings(folder string, into map[string]string) error {
	directory, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list settings: %w", err)
	}
	defer func() { _ = directory.Close() }()
	names, err := directory.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list settings: %w", err)
	}
	buffer := make([]byte, os.Getpagesize())
	for _, name := range names {
		// A command, a secret that is not set, or a device that goes.
		if content, ok := readSetting(int(directory.Fd()), name, buffer); ok {
			into[filepath.Join(folder, name)] = content
		}
	}
	return nil
}

// readSetting returns what a file has that its owner may write.
func readSetting(folder int, name string, buffer []byte) (content string, ok bool) {
	const byOwner = 0o200
	var info unix.Stat_t
	if err := unix.Fstatat(folder, name, &info, 0); err != nil || info.Mode&byOwner == 0 {
		return "", false
	}
	file, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer func() { _ = unix.Close(file) }()
	n, err := unix.Read(file, buffer)
	if err != nil {
		return "", false
	}
	return strings.TrimSuffix(string(buffer[:n]), "\n"), true
}

// Above returns the devices of other network namespaces on top of the devices of this one, by
// index.
func (k *Kernel) Above(ctx context.Context) (map[uint32][]string, error) {
	return spaces.Above(ctx, k.space)
}

// Replay executes one request of a snapshot. The removal of a missing object succeeds.
func (k *Kernel) Replay(ctx context.Context, r snapshot.Request) (err error) {
	switch {
	case r.Path != "":
		err = k.space.Do(func(ns.NetNS) error { return os.WriteFile(r.Path, []byte(r.Value+"\n"), 0) })
	case r.Kind == unix.RTM_DELLINK || r.Kind == unix.RTM_DELADDR || r.Kind == unix.RTM_DELROUTE:
		err = unless(k.tell(ctx, r.Kind, r.Flags, raw(r.Body)), unix.ENODEV, unix.EADDRNOTAVAIL, unix.ESRCH)
	default:
		err = k.tell(ctx, r.Kind, r.Flags, raw(r.Body))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// raw is a part of a request that is sent as it is.
type raw []byte

func (r raw) Len() int          { return len(r) }
func (r raw) Serialize() []byte { return r }
