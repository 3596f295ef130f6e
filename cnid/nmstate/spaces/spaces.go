// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spaces looks into the other network namespaces of a host for interfaces that go with
// one of the host: the kernel removes those on top of an interface with it, wherever they are.
package spaces

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/alioth-net/alioth/cnid/system/attribute"
	"github.com/alioth-net/alioth/cnid/system/rtnl"
)

// Above returns the names of the interfaces in other network namespaces that are on top of
// interfaces of a namespace, by the indexes of the latter. It knows the namespaces of processes,
// and mounted namespaces. It leaves out a namespace that ends meanwhile.
func Above(ctx context.Context, of ns.NetNS) (map[uint32][]string, error) {
	all, err := namespaces()
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var own unix.Stat_t
	if err := unix.Fstat(int(of.Fd()), &own); err != nil {
		return nil, fmt.Errorf("look for the network namespace: %w", err)
	}
	delete(all, own.Ino)
	above := map[uint32][]string{}
	for _, path := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := within(path, of, above); err != nil {
			return nil, fmt.Errorf("look into the network namespace %s: %w", path, err)
		}
	}
	for _, names := range above {
		slices.Sort(names)
	}
	return above, nil
}

// within adds the interfaces of one namespace.
func within(path string, of ns.NetNS, above map[uint32][]string) error {
	space, err := ns.GetNS(path)
	if err != nil {
		return nil // It has ended.
	}
	defer func() { _ = space.Close() }()
	return space.Do(func(ns.NetNS) error {
		list, err := rtnl.Complete(links)
		if err = settled(err); err != nil {
			return err
		}
		// The kernel may give the number with the list.
		id, err := netlink.GetNetNsIdByFd(int(of.Fd()))
		if err != nil || id < 0 {
			return err
		}
		for _, message := range list {
			if index, name := below(message, uint32(id)); index != 0 {
				above[index] = append(above[index], name)
			}
		}
		return nil
	})
}

// settled takes the last list of a namespace that changes all the time. A pod with rights in its
// namespace can keep it so, and must not have every change of the node refused. What the list
// lacks is an interface of that pod, which goes with the interface below it.
func settled(err error) error {
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil
	}
	return err
}

// links lists the interfaces of the present namespace that are on top of others, without the
// rest: a pod may have any number of interfaces.
func links() (list [][]byte, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	err = request.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(message []byte) bool {
		if isAbove(message) {
			list = append(list, slices.Clone(message)) // it is a part of a buffer
		}
		return true
	})
	return list, err
}

// isAbove reports whether an interface is on top of one of another namespace.
func isAbove(message []byte) bool {
	if len(message) < unix.SizeofIfInfomsg {
		return false
	}
	_, ok := attribute.List(message[unix.SizeofIfInfomsg:]).Number(unix.IFLA_LINK_NETNSID)
	return ok
}

// below returns the index of the interface below another one, if it is in the namespace with a
// number, and the name of the latter. The ends of a pair are not on top of each other.
func below(message []byte, space uint32) (index uint32, name string) {
	if len(message) < unix.SizeofIfInfomsg {
		return 0, ""
	}
	list := attribute.List(message[unix.SizeofIfInfomsg:])
	info := list.Get(unix.IFLA_LINKINFO)
	if where, ok := list.Number(unix.IFLA_LINK_NETNSID); !ok || where != space {
		return 0, ""
	}
	switch info.Text(nl.IFLA_INFO_KIND) {
	case "veth", "netkit":
		return 0, ""
	case "vxlan":
		return info.Get(nl.IFLA_INFO_DATA).Value(nl.IFLA_VXLAN_LINK), list.Text(unix.IFLA_IFNAME)
	default:
		return list.Value(unix.IFLA_LINK), list.Text(unix.IFLA_IFNAME)
	}
}

// namespaces returns a path of each network namespace, by its inode.
func namespaces() (map[uint64]string, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil {
		return nil, err
	}
	// A process may end before its path is opened, so the paths of mounts come last. This process
	// may be in a container, or have mounts of its own.
	for _, process := range []string{"/proc/1", "/proc/self"} {
		mounted, err := mounts(process)
		if err != nil {
			return nil, err
		}
		paths = append(paths, mounted...)
	}
	all := map[uint64]string{}
	for _, path := range paths {
		var stat unix.Stat_t
		if unix.Stat(path, &stat) == nil {
			all[stat.Ino] = path
		}
	}
	return all, nil
}

// mounts returns where network namespaces are mounted that a process sees.
func mounts(process string) (paths []string, err error) {
	file, err := os.Open(filepath.Join(process, "mountinfo"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); ; {
		if !lines.Scan() {
			return paths, lines.Err()
		}
		const root, point = 3, 4 // proc_pid_mountinfo(5)
		if fields := strings.Fields(lines.Text()); len(fields) > point && strings.HasPrefix(fields[root], "net:[") {
			paths = append(paths, filepath.Join(process, "root", unescaped.Replace(fields[point])))
		}
	}
}

// unescaped makes a path of one in mountinfo.
var unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
