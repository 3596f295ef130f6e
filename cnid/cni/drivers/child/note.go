// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"github.com/vishvananda/netlink"

	"github.com/alioth-net/alioth/cnid/cni/drivers/sandbox"
	"github.com/alioth-net/alioth/cnid/forward/hostlink/links"
	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/system/netns"
)

// note describes an interface from before its creation until its removal. The mark alone, in the
// pod's namespace, is not enough: a pod with CAP_NET_ADMIN could give it to an interface in the
// name of another pod.
type note struct{ sandbox.Interface }

func noteOf(spec ifdriver.Spec, id netns.ID, number int) note {
	return note{sandbox.Of(spec, id, number)}
}

// temporaryPrefix starts the name of an interface that is being made and can't have its own
// name yet.
const temporaryPrefix = "alc"

func (n note) temporary() string {
	return ifdriver.DeviceName(temporaryPrefix, n.ContainerID, n.IfName)
}

// marks reports whether a device of the pod's namespace has the mark of the interface.
func (n note) marks(link netlink.Link, kind ifdriver.Kind) bool {
	return link.Type() == string(kind) && link.Attrs().Alias == n.Mark
}

// made reports whether a device of the pod's namespace is the interface, or the remains of an
// ended process.
func (n note) made(link netlink.Link, kind ifdriver.Kind) bool {
	a := link.Attrs()
	unfinished := link.Type() == string(kind) && a.Group == links.Unfinished &&
		(a.Name == n.IfName || a.Name == n.temporary())
	return unfinished || n.marks(link, kind)
}
