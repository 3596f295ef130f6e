// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package attachment

import (
	"context"
	"errors"
	"time"

	"github.com/alioth-net/alioth/cnid/journal"
)

// Decision is what the control plane decided for one attachment of a pod, taken
// from the Address objects of the pod's UID and their Subnet and VPC.
type Decision struct {
	// IfName is the interface's name in the pod; "" for the one that is asked for,
	// which each list of decisions has once.
	IfName string
	// Attachment is the attachment's name in the Address objects.
	Attachment string
	journal.Binding
	// Interface lacks what the driver gives it: the names and numbers of devices.
	journal.Interface
	// Probed and ProbeTimeout are those of journal.Record.
	Probed       bool
	ProbeTimeout time.Duration
	// HostPorts are those of journal.Record.
	HostPorts []journal.HostPort
}

// Decisions knows what was decided for a pod.
type Decisions interface {
	// Await blocks until pod UID, readiness and the complete set of Address
	// objects agree, and returns what they say: the pod's attachments, at least
	// one. When ctx ends first it returns a *NotReady that says what is missing,
	// with the reason in the pod's condition if it has one. A pod that is being
	// deleted, or gone after it was seen, ends the wait at once with ErrPodGone.
	Await(ctx context.Context, pod journal.Pod) ([]Decision, error)
	// Confirm returns why the attachments of a pod must not be made although they
	// were decided: what has come between decision and journal. These are their
	// records, which are in the journal. A pod that is to have no network any more
	// is an ErrPodGone: what it had is released only after Confirm would say so,
	// and only while the journal has nothing of the pod. A conflict with an older
	// record, which another request brought about at the same time, is a *NotReady.
	Confirm(records []journal.Record) error
	// Check returns where the Address objects of an attachment's pod and the
	// record differ. What has not been read from the API is no difference.
	Check(rec journal.Record) error
}

// Datapath carries packets for the attachments that are in the journal in phase
// journal.PhaseDone, and for no others. It is asked about those alone whose driver
// has a datapath.
type Datapath interface {
	// Program returns once a programmed revision includes the record, which
	// is in the journal with phase journal.PhaseDone already. When ctx ends
	// first it returns an error. Programming a record again is no error. A
	// *NotReady is handed to the caller as it is.
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
	// Ready returns nil, or what is local, lasting and stops every attachment. It
	// answers at once. STATUS fails with it, and a failing STATUS makes the
	// whole node NotReady, so a lagging store or an absent API server is no
	// reason.
	Ready() error
}

// Releaser gives addresses back.
type Releaser interface {
	// Release reports that rec has left the journal's records and is in its release
	// queue (journal.Releases) since. It must not block. Whether the pod's Addresses
	// may go is the releaser's to decide: what was rolled back ends here too.
	Release(rec journal.Record)
}

// ErrPodGone reports that the pod is being deleted or gone, so that waiting on its network
// is pointless.
var ErrPodGone = errors.New("pod is being deleted or gone")

// ErrNamespaceAlive reports that the attachment is alive in another network namespace than
// the one it is asked for in.
var ErrNamespaceAlive = errors.New("attachment is alive in another network namespace")

// NotReady is the error of what may succeed later.
type NotReady struct {
	// Reason is the text for users: what is missing and, if known, what to do.
	Reason string
}

// Error returns the text that kubelet shows in the pod's events.
func (e *NotReady) Error() string { return "network is not ready - " + e.Reason }
