// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Names of the links.
const (
	linkFromTunnel = "from_tunnel"
	linkConnect4   = "connect4"
	linkConnect6   = "connect6"
)

// links are the pinned attachments of the programs that do not belong to a pod's
// interface.
type links struct {
	dir     string
	objects *aliothObjects
	log     *slog.Logger
}

func (l *links) path(name string) string { return filepath.Join(l.dir, name) }

// attachedTo tells whether a link is still attached to the device. A link
// whose device is gone reports no device.
func attachedTo(lnk link.Link, ifindex uint32) (bool, error) {
	info, err := lnk.Info()
	if err != nil {
		return false, fmt.Errorf("read link: %w", err)
	}
	tcx := info.TCX()
	return tcx != nil && tcx.Ifindex == ifindex, nil
}

func (l *links) upsertTCX(name string, ifindex uint32, prog *ebpf.Program, hook ebpf.AttachType) error {
	old, err := link.LoadPinnedLink(l.path(name), nil)
	switch {
	case err == nil:
		defer old.Close()
		same, err := attachedTo(old, ifindex)
		if err != nil {
			return err
		}
		if same {
			return l.update(old, name, prog)
		}
		// The tunnel has another device now.
		if err := os.Remove(l.path(name)); err != nil {
			return fmt.Errorf("remove pin of an old link: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("open pinned link %s: %w", name, err)
	}
	fresh, err := link.AttachTCX(link.TCXOptions{Interface: int(ifindex), Program: prog, Attach: hook, Anchor: link.Head()})
	if err != nil {
		return fmt.Errorf("attach %s to device %d: %w", name, ifindex, err)
	}
	return l.pin(fresh, name)
}

// update replaces the program of a link in one step: no packet goes without.
func (l *links) update(old link.Link, name string, prog *ebpf.Program) error {
	if err := old.Update(prog); err != nil {
		return fmt.Errorf("replace program of %s: %w", name, err)
	}
	return nil
}

// pin makes a link outlive the process. A link that cannot be pinned is taken
// away again.
func (l *links) pin(fresh link.Link, name string) error {
	defer fresh.Close()
	if err := fresh.Pin(l.path(name)); err != nil {
		return fmt.Errorf("pin link %s: %w", name, err)
	}
	l.log.Debug("attached program", "link", name)
	return nil
}

func (l *links) upsertCgroup(name, root string, prog *ebpf.Program, hook ebpf.AttachType) error {
	old, err := link.LoadPinnedLink(l.path(name), nil)
	if err == nil {
		defer old.Close()
		same, err := attachedToCgroup(old, root)
		if err != nil {
			return err
		}
		if same {
			return l.update(old, name, prog)
		}
		if err := os.Remove(l.path(name)); err != nil {
			return fmt.Errorf("remove pin of an old link: %w", err)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open pinned link %s: %w", name, err)
	}
	fresh, err := link.AttachCgroup(link.CgroupOptions{Path: root, Attach: hook, Program: prog})
	if err != nil {
		return fmt.Errorf("attach %s to cgroup %s (it must be a cgroup2 directory): %w", name, root, err)
	}
	return l.pin(fresh, name)
}

// attachedToCgroup tells whether a link belongs to the cgroup at root, whose
// id is the inode of its directory. A link to a removed cgroup has none.
func attachedToCgroup(lnk link.Link, root string) (bool, error) {
	info, err := lnk.Info()
	if err != nil {
		return false, fmt.Errorf("read link: %w", err)
	}
	var dir unix.Stat_t
	if err := unix.Stat(root, &dir); err != nil {
		return false, fmt.Errorf("look at cgroup %s: %w", root, err)
	}
	cgroup := info.Cgroup()
	return cgroup != nil && cgroup.CgroupId == dir.Ino, nil
}

// upsertAll attaches the current programs to the tunnel and to the sockets.
func (l *links) upsertAll(cfg Config) error {
	err := l.upsertTCX(linkFromTunnel, uint32(cfg.VXLANIfindex), l.objects.AliothFromTunnel, ebpf.AttachTCXIngress)
	if err != nil {
		return err
	}
	err = l.upsertCgroup(linkConnect4, cfg.CgroupRoot, l.objects.AliothConnect4, ebpf.AttachCGroupInet4Connect)
	if err != nil {
		return err
	}
	return l.upsertCgroup(linkConnect6, cfg.CgroupRoot, l.objects.AliothConnect6, ebpf.AttachCGroupInet6Connect)
}

// retire ends the links by which earlier versions attached programs to pods'
// interfaces, each after the filter that takes its place.
func (l *links) retire(filters *filters) error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("list pinned links: %w", err)
	}
	for _, entry := range entries {
		if slices.Contains([]string{linkFromTunnel, linkConnect4, linkConnect6}, entry.Name()) {
			continue
		}
		if err := l.retireOne(entry.Name(), filters); err != nil {
			return fmt.Errorf("replace pinned link %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func (l *links) retireOne(name string, filters *filters) error {
	old, err := link.LoadPinnedLink(l.path(name), nil)
	if err != nil {
		return err
	}
	defer old.Close()
	info, err := old.Info()
	if err != nil {
		return err
	}
	if tcx := info.TCX(); tcx != nil && tcx.Ifindex != 0 { // 0: its device is gone
		a := attachment{tcx.Ifindex, programFromPod}
		if ebpf.AttachType(tcx.AttachType) == ebpf.AttachTCXEgress {
			a.Program = programToPod
		}
		if err := filters.ensure(a); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	return os.Remove(l.path(name))
}
