// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/netns"
)

// maxAlias is the longest alias that the kernel takes (IFALIASZ less the zero).
const maxAlias = 255

// aliasFields are the words of a host end's alias that have to be whole: alioth,
// container ID, interface, pod UID, network, and path of the network namespace,
// each escaped as in a URL. What comes behind is for people.
const aliasFields = 6

// mark returns the alias of a host end: what it takes to find out whose it is
// when the journal is lost. A real runtime's needs some 200 bytes; of one that
// doesn't fit nothing can be found out.
func mark(spec attach.Spec) string {
	words := []string{
		"alioth", url.PathEscape(spec.ContainerID), url.PathEscape(spec.IfName), url.PathEscape(spec.PodUID),
		url.PathEscape(spec.Network), (&url.URL{Path: spec.NetnsPath}).EscapedPath(), spec.Description,
	}
	alias := strings.Join(words, " ")
	return alias[:min(len(alias), maxAlias)]
}

// marked reads an alias back. It is false for what is not one, or not whole.
func marked(alias string) (attach.Found, bool) {
	words := strings.SplitN(alias, " ", aliasFields+1)
	if len(words) <= aliasFields || words[0] != "alioth" {
		return attach.Found{}, false
	}
	var found attach.Found
	for i, field := range []*string{&found.ContainerID, &found.IfName, &found.PodUID, &found.Network, &found.NetnsPath} {
		text, err := url.PathUnescape(words[i+1])
		if err != nil || text == "" {
			return attach.Found{}, false
		}
		*field = text
	}
	return found, true
}

// List implements attach.Driver. The name of a host end follows from the
// container and the interface, so that no alias of another one is believed.
func (d *Driver) List(ctx context.Context) ([]attach.Found, error) {
	links, err := dump(d.host.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	slices.SortFunc(links, func(x, y netlink.Link) int { return cmp.Compare(x.Attrs().Index, y.Attrs().Index) })
	var list []attach.Found
	for _, link := range links {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		found, ok := marked(link.Attrs().Alias)
		if !ok || link.Type() != string(d.devices.Kind) || link.Attrs().Name != d.HostName(found.ContainerID, found.IfName) {
			continue
		}
		found.MTU = link.Attrs().MTU
		found.Link = d.describe(link, d.otherEnd(link, found.NetnsPath))
		list = append(list, found)
	}
	return list, nil
}

// otherEnd identifies the network namespace of a host end's other end, if that
// is the one at path.
func (d *Driver) otherEnd(host netlink.Link, path string) netns.ID {
	pod, err := netns.Open(path)
	if err != nil {
		return netns.ID{}
	}
	defer func() { _ = pod.Close() }()
	number, err := d.host.GetNetNsIdByFd(int(pod.Fd()))
	if err != nil || number != host.Attrs().NetNsID {
		return netns.ID{}
	}
	id, err := netns.Identify(path)
	if err != nil {
		return netns.ID{}
	}
	return id
}
