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
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/ebpf/bpf"
	"github.com/alioth-net/alioth/ebpf/datapath/hook"
	"github.com/alioth-net/alioth/ebpf/datapath/programs"
)

// links are the pinned attachments of the programs that do not belong to a pod's
// interface.
type links struct {
	pinDir  string
	objects *bpf.AliothObjects
	// filters stand in for links to devices on kernels without TCX.
	filters *filters
	log     *slog.Logger
	// held keeps each link open: otherwise a link whose pin is removed would end, and
	// packets would pass unfiltered until the next check.
	held map[string]link.Link
}

// newLinks returns the links that are pinned below pinDir. On kernels without TCX
// filters replace links to devices.
func newLinks(pinDir string, objects *bpf.AliothObjects, filters *filters, log *slog.Logger) *links {
	return &links{pinDir: pinDir, objects: objects, filters: filters, log: log, held: map[string]link.Link{}}
}

func (l *links) close() {
	for _, held := range l.held {
		held.Close()
	}
	l.held = nil
}

// hold keeps lnk open in place of the link that was held under this name.
func (l *links) hold(name string, lnk link.Link) {
	if before, ok := l.held[name]; ok {
		before.Close()
	}
	l.held[name] = lnk
}

func (l *links) path(name string) string { return linkPath(l.pinDir, name) }

// attachedTo reports whether a link is still attached to the device. A link whose
// device is gone reports no device.
func attachedTo(lnk link.Link, ifindex uint32) (bool, error) {
	info, err := lnk.Info()
	if err != nil {
		return false, fmt.Errorf("read link: %w", err)
	}
	tcx := info.TCX()
	return tcx != nil && tcx.Ifindex == ifindex, nil
}

// hooked is a wanted attachment.
type hooked struct {
	name    string
	program *ebpf.Program
	spot
}

// errNoOtherWay is the error of a spot where programs are attached by links only.
var errNoOtherWay = errors.New("programs are attached by links only")

// spot is where a program is attached.
type spot interface {
	// attached reports whether a link is attached here.
	attached(lnk link.Link) (bool, error)
	// attach makes a link here.
	attach() (link.Link, error)
	// instead attaches the program on kernels without such links, and reports whether the program
	// was not attached before. It returns errNoOtherWay if the kernel has none.
	instead() (changed bool, err error)
}

// onDevice returns an attachment to a device of the node, on its program's side; where is
// its place among the attachments of others.
func (l *links) onDevice(p hook.Program, ifindex int, object *ebpf.Program, where link.Anchor) hooked {
	side := ebpf.AttachTCXIngress
	if places[p].side == netlink.HANDLE_MIN_EGRESS {
		side = ebpf.AttachTCXEgress
	}
	return hooked{name: string(p), program: object, spot: deviceSpot{
		options: link.TCXOptions{
			Interface: ifindex,
			Program:   object,
			Attach:    side,
			Anchor:    where,
		}, filters: l.filters, program: p,
	}}
}

// deviceSpot is a side of a device.
type deviceSpot struct {
	options link.TCXOptions
	filters *filters
	program hook.Program
}

func (d deviceSpot) attached(lnk link.Link) (bool, error) {
	return attachedTo(lnk, uint32(d.options.Interface))
}

func (d deviceSpot) attach() (link.Link, error) { return link.AttachTCX(d.options) }

func (d deviceSpot) instead() (bool, error) {
	return d.filters.settle(hook.Attachment{Ifindex: uint32(d.options.Interface), Program: d.program})
}

func (l *links) onCgroup(name, root string, program *ebpf.Program, hook ebpf.AttachType) hooked {
	return hooked{name: name, program: program, spot: cgroupSpot{Path: root, Attach: hook, Program: program}}
}

// cgroupSpot is a hook of a cgroup.
type cgroupSpot link.CgroupOptions

func (c cgroupSpot) attached(lnk link.Link) (bool, error) { return attachedToCgroup(lnk, c.Path) }

func (c cgroupSpot) attach() (link.Link, error) {
	fresh, err := link.AttachCgroup(link.CgroupOptions(c))
	if err != nil {
		return nil, fmt.Errorf("cgroup %s (it must be a cgroup2 directory): %w", c.Path, err)
	}
	return fresh, nil
}

func (cgroupSpot) instead() (bool, error) { return false, errNoOtherWay }

// upsert puts h's program on the pinned link. It reports whether the link had another program or
// was not in place.
func (l *links) upsert(h hooked) (changed bool, err error) {
	repinned, err := l.repin(h.name)
	if err != nil {
		return false, err
	}
	old, err := link.LoadPinnedLink(l.path(h.name), nil)
	switch {
	case err == nil:
		l.hold(h.name, old)
		same, err := h.attached(old)
		if err != nil {
			return false, err
		}
		if same {
			updated, err := l.update(old, h)
			return updated || repinned, err
		}
		// It is attached to another device now, or was detached.
		if err := os.Remove(l.path(h.name)); err != nil {
			return false, fmt.Errorf("remove pin of an old link: %w", err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return false, fmt.Errorf("open pinned link %s: %w", h.name, err)
	}
	fresh, err := h.attach()
	if errors.Is(err, ebpf.ErrNotSupported) {
		changed, otherwise := h.instead()
		if !errors.Is(otherwise, errNoOtherWay) {
			err = otherwise
		}
		if err == nil {
			return changed, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("attach %s: %w", h.name, err)
	}
	return true, l.pin(fresh, h.name)
}

// update replaces the program of a link in one step: no packet passes unfiltered.
func (l *links) update(old link.Link, h hooked) (changed bool, err error) {
	now, err := old.Info()
	if err != nil {
		return false, fmt.Errorf("read link %s: %w", h.name, err)
	}
	want, err := h.program.Info()
	if err != nil {
		return false, fmt.Errorf("read program of %s: %w", h.name, err)
	}
	if id, _ := want.ID(); id == now.Program {
		return false, nil
	}
	if err := old.Update(h.program); err != nil {
		return false, fmt.Errorf("replace program of %s: %w", h.name, err)
	}
	return true, nil
}

// repin restores the removed pin of a link that is held open.
func (l *links) repin(name string) (repinned bool, err error) {
	held, ok := l.held[name]
	if !ok {
		return false, nil
	}
	if _, err := os.Stat(l.path(name)); !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	// The library remembers the pin of the link, and would move it.
	if err := held.Unpin(); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, fmt.Errorf("forget pin of link %s: %w", name, err)
	}
	if err := held.Pin(l.path(name)); err != nil {
		return false, fmt.Errorf("pin link %s again: %w", name, err)
	}
	return true, nil
}

// pin makes a link outlive the process. A link that cannot be pinned is closed again.
func (l *links) pin(fresh link.Link, name string) error {
	if err := fresh.Pin(l.path(name)); err != nil {
		return errors.Join(fmt.Errorf("pin link %s: %w", name, err), fresh.Close())
	}
	l.hold(name, fresh)
	l.log.Debug("attached program", "link", name)
	return nil
}

// attachedToCgroup reports whether a link belongs to the cgroup at root, whose id is the inode of
// its directory. A link to a removed cgroup has no id.
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

// onSockets returns the attachments to sockets. Programs that restore the Service's address
// precede programs that replace it by a backend's.
func (l *links) onSockets(root string) []hooked {
	o := l.objects
	return []hooked{
		l.onCgroup(hook.Getpeername4, root, o.AliothGetpeername4, ebpf.AttachCgroupInet4GetPeername),
		l.onCgroup(hook.Getpeername6, root, o.AliothGetpeername6, ebpf.AttachCgroupInet6GetPeername),
		l.onCgroup(hook.Recvmsg4, root, o.AliothRecvmsg4, ebpf.AttachCGroupUDP4Recvmsg),
		l.onCgroup(hook.Recvmsg6, root, o.AliothRecvmsg6, ebpf.AttachCGroupUDP6Recvmsg),
		l.onCgroup(hook.Sendmsg4, root, o.AliothSendmsg4, ebpf.AttachCGroupUDP4Sendmsg),
		l.onCgroup(hook.Sendmsg6, root, o.AliothSendmsg6, ebpf.AttachCGroupUDP6Sendmsg),
		l.onCgroup(hook.Connect4, root, o.AliothConnect4, ebpf.AttachCGroupInet4Connect),
		l.onCgroup(hook.Connect6, root, o.AliothConnect6, ebpf.AttachCGroupInet6Connect),
	}
}

// wanted returns all attachments of the configuration. The programs leave devices and cgroups
// that it does not name.
func (l *links) wanted(cfg programs.Config) ([]hooked, error) {
	wanted := append(
		l.onSockets(cfg.CgroupRoot),
		l.onDevice(hook.FromTunnel, cfg.VXLANIfindex, l.objects.AliothFromTunnel, link.Head()),
	)
	if uplink := cfg.Uplink(); uplink != 0 {
		// After the programs of the host's owner.
		wanted = append(wanted, l.onDevice(hook.FromUnderlay, uplink, l.objects.AliothFromUnderlay, link.Tail()),
			l.onDevice(hook.ToUnderlay, uplink, l.objects.AliothToUnderlay, link.Tail()))
	} else if err := errors.Join(l.leaveDevice(hook.FromUnderlay), l.leaveDevice(hook.ToUnderlay)); err != nil {
		return nil, err
	}
	if cfg.FragmentPeerIfindex != 0 {
		wanted = append(wanted, l.onDevice(hook.Fragment, cfg.FragmentPeerIfindex, l.objects.AliothFragment, link.Head()))
	} else if err := l.leaveDevice(hook.Fragment); err != nil {
		return nil, err
	}
	guards, err := l.guards(cfg)
	return append(wanted, guards...), err
}

// upsertAll attaches the current programs to the node's devices and sockets. It returns
// the names of the links that it had to change.
func (l *links) upsertAll(cfg programs.Config) (changed []string, err error) {
	wanted, err := l.wanted(cfg)
	if err != nil {
		return nil, err
	}
	for _, h := range wanted {
		other, err := l.upsert(h)
		if err != nil {
			return changed, err
		}
		if other {
			changed = append(changed, h.name)
		}
	}
	return changed, nil
}

// leaveDevice removes a program from its former device of the node.
func (l *links) leaveDevice(p hook.Program) error {
	if err := os.Remove(l.path(string(p))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove pin of link %s: %w", p, err)
	}
	_, err := l.filters.settle(hook.Attachment{Ifindex: 0, Program: p})
	return err
}

// retire removes the links of earlier versions to pods' interfaces, each after the filter that
// replaces it is in place.
func (l *links) retire() error {
	entries, err := os.ReadDir(programs.LinkDir(l.pinDir))
	if err != nil {
		return fmt.Errorf("list pinned links: %w", err)
	}
	for _, entry := range entries {
		if slices.Contains(hook.LinkNames(), entry.Name()) {
			continue
		}
		if err := l.retireOne(entry.Name()); err != nil {
			return fmt.Errorf("replace pinned link %s: %w", entry.Name(), err)
		}
	}
	return nil
}

func (l *links) retireOne(name string) error {
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
		a := hook.Attachment{Ifindex: tcx.Ifindex, Program: hook.FromPod}
		if ebpf.AttachType(tcx.AttachType) == ebpf.AttachTCXEgress {
			a.Program = hook.ToPod
		}
		if err := l.filters.attach(a); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
	}
	return os.Remove(l.path(name))
}

// linkPath returns the path of a link's pin. Earlier versions handle each unknown link in
// their folder as one of a pod's interface, and replace its program by the one for
// pods: after a downgrade that one would drop the node's packets. So later links are
// pinned beside the maps.
func linkPath(pinDir, name string) string {
	if slices.Contains(besideMaps(), name) {
		return filepath.Join(pinDir, bpf.Prefix+name)
	}
	return filepath.Join(programs.LinkDir(pinDir), name)
}

// besideMaps returns the names of links that earlier versions do not know.
func besideMaps() []string { return append(hook.GuardLinks(), string(hook.ToUnderlay)) }
