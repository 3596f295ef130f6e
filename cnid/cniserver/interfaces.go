// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cniserver

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/alioth-net/alioth/cnid/attach"
	"github.com/alioth-net/alioth/cnid/journal"
)

// Decision is what the control plane decided for one pod, taken from the
// Address objects of its UID and their Subnet and VPC.
type Decision struct {
	Kind attach.Kind
	// Attachment is the attachment's name in the Address objects.
	Attachment string
	VPC        string
	// VNI of the VPC, 1 to 1<<24-1.
	VNI uint32
	// Addrs is the complete set with the subnets' prefix lengths, at most one
	// per family and at least one; IPv4 first.
	Addrs []netip.Prefix
	// Subnets are the names of the Subnet objects, in the order of Addrs.
	Subnets []string
	// Gateways are those of the subnets, in the order of Addrs.
	Gateways []netip.Addr
	MAC      journal.MAC
	// MTU of the pod's interface in bytes, derived from the underlay.
	MTU int
	// AltName is a second name for the interface in the pod, or "".
	AltName string
	// Probed and ProbeTimeout are those of journal.Record.
	Probed       bool
	ProbeTimeout time.Duration
	// HostPorts are those of journal.Record.
	HostPorts []journal.HostPort
}

// Decisions knows what was decided for a pod.
type Decisions interface {
	// Await blocks until pod UID, readiness and the complete set of Address
	// objects agree, and returns what they say. When ctx ends first it
	// returns a *NotReady that says what is missing, with the reason in the
	// pod's condition if it has one. A pod that is being deleted, or gone
	// after it was seen, ends the wait at once with ErrPodGone.
	Await(ctx context.Context, pod journal.Pod) (Decision, error)
	// Leaving tells whether a pod that a decision was about is to have no
	// network any more. What the pod had is released only after Leaving would
	// say so, and only while the journal has nothing of the pod.
	Leaving(pod journal.Pod) bool
	// Check returns where the Address objects of an attachment's pod and the
	// record differ. What has not been read from the API is no difference.
	Check(rec journal.Record) error
}

// Datapath carries packets for the attachments that are in the journal in
// phase journal.PhaseDone, and for no others.
type Datapath interface {
	// Program returns once a programmed revision includes the record, which
	// is in the journal with phase journal.PhaseDone already. When ctx ends
	// first it returns an error. Programming a record again is no error. A
	// *NotReady is handed to the runtime as it is.
	Program(ctx context.Context, rec journal.Record) error
	// Unprogram returns once a programmed revision no longer includes the
	// record, which is in the journal with phase journal.PhaseLeaving, its
	// device not yet removed by us. A record that was never programmed is no
	// error. On an error the device is removed all the same, and it is for the
	// datapath to follow the journal later.
	Unprogram(ctx context.Context, rec journal.Record) error
	// Check compares the kernel with the record and returns the first
	// difference.
	Check(rec journal.Record) error
	// Ready returns nil, or what is local, lasting and stops every ADD. It
	// answers at once. STATUS fails with it, and a failing STATUS makes the
	// whole node NotReady, so a lagging store or an absent API server is no
	// reason.
	Ready() error
}

// Releaser gives addresses back.
type Releaser interface {
	// Release tells that rec has left the journal's records and is in its
	// release queue (journal.Releases) since. It must not block. Whether the
	// pod's Addresses may go is the releaser's to decide: a failed ADD ends
	// here too.
	Release(rec journal.Record)
}

// ErrPodGone says that the pod is being deleted or gone, so that waiting on
// its network is pointless.
var ErrPodGone = errors.New("pod is being deleted or gone")

// NotReady is the error of an ADD that may succeed later. The runtime gets it
// as CNI error 11.
type NotReady struct {
	// Reason says for a person what is missing and, where known, what to do.
	Reason string
}

// Error returns the text that kubelet shows in the pod's events.
func (e *NotReady) Error() string { return "network is not ready - " + e.Reason }
