// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sriov"
	"github.com/alioth-net/alioth/cnid/forward/hostlink"
	"github.com/alioth-net/alioth/cnid/forward/netdev"
	"github.com/alioth-net/alioth/cnid/forward/netdev/hostdev"
	"github.com/alioth-net/alioth/cnid/forward/netfilter"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
	"github.com/alioth-net/alioth/cnid/lifecycle/install/cnidir"
	"github.com/alioth-net/alioth/cnid/lifecycle/stateformat"
	"github.com/alioth-net/alioth/ebpf/datapath"
)

// Node has the places of Alioth's files and objects on a node.
type Node struct {
	CNIBinDir, CNIConfDir string
	// StateDir has the files Journal and Settings, whose names others extend.
	StateDir, Journal, Settings, Socket string
	// Interfaces is the folder of notes about interfaces without an end on the node.
	Interfaces string
	// Delegates is the folder of interfaces that other CNI plugins have made.
	Delegates string
	// NodeIPAM are the files and folders of the node IPAM API, whose names others extend.
	NodeIPAM []string
	// NetworkStates is the folder of the node's network states. It stays if NetworkStatesKept
	// returns true: the node applies the committed state at each boot.
	NetworkStates     string
	NetworkStatesKept func() bool
	// BPFDir and CgroupRoot are as in the daemon's configuration.
	BPFDir, CgroupRoot string
	// Shadows are the ranges of shadow addresses.
	Shadows []netip.Prefix
	// Wait limits how long a daemon may take to end.
	Wait time.Duration
}

// Uninstall removes Alioth from this node: CNI configuration and plugin, programs and maps,
// devices with the pods' interfaces, packet filter, kernel settings, journal and sockets. Virtual
// functions get their earlier settings. It fails while a daemon runs. It continues after a failed
// step; missing objects are not an error.
func Uninstall(ctx context.Context, n Node, log *slog.Logger) error {
	// First, so that no new pod is attached during the rest.
	if err := removeFiles(filepath.Join(n.CNIConfDir, cnidir.ConflistName)); err != nil {
		return err
	}
	if err := stopped(ctx, n, log); err != nil {
		return err
	}
	cgroup, err := CgroupRoot(n.CgroupRoot)
	if err != nil {
		return err
	}
	host, err := netdev.New(n.Settings, log)
	if err != nil {
		return err
	}
	defer host.Close()
	var shadows []netip.Addr
	for _, prefix := range n.Shadows {
		shadows = append(shadows, journal.NodeShadow(prefix))
	}
	err = errors.Join(
		sriov.ReleaseAll(ctx, n.Interfaces),
		datapath.Uninstall(n.BPFDir, cgroup),
		host.Uninstall(hostdev.State{Shadows: shadows}),
		hostlink.Uninstall(),
		netfilter.Remove(),
	)
	if err != nil {
		// The journal stays, because it names objects that may still exist.
		return err
	}
	if err := removeState(n); err != nil {
		return err
	}
	log.Info("removed Alioth from this node")
	return nil
}

// stopped makes sure that no daemon holds the journal.
func stopped(ctx context.Context, n Node, log *slog.Logger) error {
	if _, err := os.Stat(n.StateDir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, n.Wait)
	defer cancel()
	j, err := journal.Open(waiting, journal.Config{Path: n.Journal, Log: log})
	if errors.Is(err, journal.ErrNewerFormat) {
		return nil // it is removed, whatever its content
	}
	if err != nil {
		return fmt.Errorf("is alioth-cnid still running on this node? %w", err)
	}
	return j.Close()
}

// removeState removes the remaining files: the plugins, the journal with its files that
// were moved aside, notes about interfaces, and the sockets. The directories stay, because they may be mounts.
func removeState(n Node) error {
	var paths []string
	for _, name := range cnidir.Programs() {
		paths = append(paths, filepath.Join(n.CNIBinDir, name))
	}
	for _, pattern := range []string{
		filepath.Join(n.StateDir, "journal.*"),
		filepath.Join(n.StateDir, stateformat.File+"*"),
		n.Settings + "*",
		n.Socket + "*",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("look for files of Alioth: %w", err)
		}
		paths = append(paths, found...)
	}
	if err := os.RemoveAll(n.Interfaces); err != nil {
		return fmt.Errorf("remove notes about interfaces: %w", err)
	}
	if err := removeNodeIPAM(n.NodeIPAM); err != nil {
		return err
	}
	if !n.NetworkStatesKept() {
		if err := os.RemoveAll(n.NetworkStates); err != nil {
			return fmt.Errorf("remove the network states of the node: %w", err)
		}
	}
	// It stays if it has files: they name possible remains of other plugins on the node.
	if err := os.Remove(n.Delegates); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
		return fmt.Errorf("remove the folder of other CNI plugins' interfaces: %w", err)
	}
	return removeFiles(paths...)
}

// removeNodeIPAM removes the files of the node IPAM API. No pod that it served is left.
func removeNodeIPAM(paths []string) error {
	var errs []error
	for _, path := range paths {
		found, err := filepath.Glob(path + "*")
		errs = append(errs, err)
		for _, one := range found {
			errs = append(errs, os.RemoveAll(one))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove files of the node IPAM API: %w", err)
	}
	return nil
}
