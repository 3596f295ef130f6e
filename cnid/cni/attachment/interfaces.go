// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"time"

	"github.com/alioth-net/alioth/cnid/interfaces/ifdriver"
	"github.com/alioth-net/alioth/cnid/interfaces/journal"
)

// Decision is the control plane's decision for one attachment of a pod, taken from the Address
// objects of the pod's UID and their Subnet and VPC.
type Decision struct {
	// IfName is the interface's name in the pod; "" for the requested one, which each
	// list of decisions has once.
	IfName string
	// Attachment is the attachment's name in the Address objects.
	Attachment string
	// PodUID is the UID of the pod in the API, "" for the UID of the request: a static pod has
	// two.
	PodUID string
	journal.Binding
	// Interface lacks the names and numbers of devices, which the driver sets, and the
	// device from its Pool.
	journal.Interface
	// Probed and ProbeTimeout have the meaning of journal.Record.
	Probed       bool
	ProbeTimeout time.Duration
	// HostPorts have the meaning of journal.Record.
	HostPorts []journal.HostPort
	// Delegate is the input for other CNI plugins, nil for other interfaces. The journal does not
	// have it: its driver keeps it.
	Delegate *ifdriver.Delegate
}

// Decisions has the decisions for pods.
type Decisions interface {
	// Await blocks until pod UID, readiness and the complete set of Address objects agree, and
	// returns the pod's attachments, at least one. If ctx ends first it returns a *NotReady that
	// names the missing object, with the reason in the pod's condition if it has one. If the pod
	// is being deleted, or is gone after it was seen, it returns ErrPodGone at once.
	Await(ctx context.Context, pod journal.Pod) ([]Decision, error)
	// Confirm returns an error if the attachments of a pod must not be made because of
	// a change between decision and journal. records are in the journal. If the pod is
	// ending, the error is ErrPodGone: its addresses are released only after Confirm
	// would return that, and only while the journal has no record of the pod. If
	// another request caused a conflict with an older record, it is a *NotReady.
	Confirm(records []journal.Record) error
	// Check returns the difference between the Address objects of an attachment's pod and the
	// record. Objects that have not been read from the API do not count as a difference.
	Check(rec journal.Record) error
}

// Devices has the devices that the kubelet has allocated to pods.
type Devices interface {
	// Of returns the IDs of a pod's devices by the name of their extended resource, sorted. A pod
	// that the kubelet does not know has no devices.
	Of(ctx context.Context, pod journal.Pod) (map[string][]string, error)
}

// Datapath carries packets for the attachments that are in the journal in phase
// journal.PhaseDone, and for no others. Those whose driver has no datapath have their
// sockets programmed alone.
type Datapath interface {
	// Program returns once a programmed revision includes the record, which is in the journal
	// with phase journal.PhaseDone already. When ctx ends first it returns an error. Programming
	// a record again is not an error. The manager returns a *NotReady unchanged.
	Program(ctx context.Context, rec journal.Record) error
	// Unprogram returns once a programmed revision no longer includes the record, which is in the
	// journal with phase journal.PhaseLeaving, and whose device the manager has not removed yet.
	// A record that was never programmed does not cause an error. After an error the device is
	// removed all the same, and the datapath follows the journal later.
	Unprogram(ctx context.Context, rec journal.Record) error
	// ProgramSockets is Program of a record whose driver has no datapath: the pod's
	// sockets reach the Services that lead to its network.
	ProgramSockets(ctx context.Context, rec journal.Record) error
	// UnprogramSockets makes the datapath follow the journal, where such a record is leaving.
	// Nothing waits for it: the rows end with the pod's network namespace, whose identity is not
	// used again.
	UnprogramSockets()
	// Check compares the kernel with the record and returns the first
	// difference.
	Check(rec journal.Record) error
	// Ready returns nil, or a local and lasting problem that prevents every attachment, without
	// waiting. STATUS fails with it, and a failing STATUS makes the whole node NotReady, so Ready
	// does not report a lagging store or an unreachable API server.
	Ready() error
}

// HostLinks are the VLAN and VXLAN links of the node.
type HostLinks interface {
	// Name returns the name of the link that a record's interface is derived from, which
	// it makes if it is missing. The error names cause and remedy.
	Name(ctx context.Context, rec journal.Record) (string, error)
}

// Releaser releases addresses.
type Releaser interface {
	// Release reports that rec has moved from the journal's records to its release
	// queue (journal.Releases). It must not block. The releaser decides whether the
	// pod's Addresses may be deleted: rolled back attachments come here too.
	Release(rec journal.Record)
}

// ErrPodGone reports that the pod is being deleted or gone, so that waiting on its network
// is pointless.
var ErrPodGone = errors.New("pod is being deleted or gone")

// ErrNamespaceAlive reports that the attachment is alive in another network namespace than
// the requested one.
var ErrNamespaceAlive = errors.New("attachment is alive in another network namespace")

// ErrAttached reports that another request has attached the container. All interfaces of a
// pod belong to one request.
var ErrAttached = errors.New("the pod has all of its interfaces already")

// ErrCaller reports that the pod's interfaces are not made by the CNI plugin that asks for
// them.
var ErrCaller = errors.New("another CNI plugin makes the pod's interfaces")

// NotReady is the error of a request that may succeed later.
type NotReady struct {
	// Reason is the text for users: the missing object or fact and, if known, the remedy.
	Reason string
}

// Error returns the text that kubelet shows in the pod's events.
func (e *NotReady) Error() string { return "network is not ready - " + e.Reason }
