// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package cnid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/journal"
	"github.com/alioth-net/alioth/cnid/plan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/kube"
)

const (
	// reviewVNIs is how often, at most, a node tells of VNIs without a call.
	reviewVNIs = 10 * time.Second
	// firstAssertion and lastAssertion bound the wait between attempts at
	// Addresses that stay missing.
	firstAssertion = 100 * time.Millisecond
	lastAssertion  = 30 * time.Second
)

// rollCall sees to it that the API has an Address of everything that lives on
// this node, and answers the operator's calls (docs/design/010).
type rollCall struct {
	node    string
	store   *store.Store
	journal *journal.Journal
	api     *kube.Client
	// synced says whether everything of this node has been read.
	synced func() (bool, <-chan struct{})
	syncer *syncer
	log    *slog.Logger
	// missing is what look has found at its last glance.
	glance  glance
	missing bool
}

// reply is what a node says.
type reply struct {
	call, nodeUID string
	vnis          []int32
}

func (r reply) equal(other reply) bool {
	return r.call == other.call && r.nodeUID == other.nodeUID && slices.Equal(r.vnis, other.vnis)
}

// task is what there is to do.
type task struct {
	// call and nodeUID go into the answer.
	call, nodeUID string
	// missing: the store lacks an Address of a sandbox.
	missing bool
}

// run asserts and answers until ctx ends.
func (r *rollCall) run(ctx context.Context) {
	var last reply
	pause := firstAssertion
	for {
		now, err := r.wait(ctx, last)
		if err != nil {
			return
		}
		if now.call != last.call || now.nodeUID != last.nodeUID || now.missing {
			err = r.assert(ctx)
		}
		if err == nil {
			last, err = r.answer(ctx, now, last)
		}
		if err == nil && !now.missing {
			pause = firstAssertion
			continue
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("can't answer the operator's roll call; trying again", "error", err, "after", pause)
		}
		r.syncer.rest(ctx, pause)
		pause = min(2*pause, lastAssertion)
	}
}

// wait returns when there is something to do, and now and then.
func (r *rollCall) wait(ctx context.Context, last reply) (task, error) {
	var now task
	soon, cancel := context.WithTimeout(ctx, reviewVNIs)
	defer cancel()
	err := r.store.Wait(soon, func(tx store.ReadTx, ws *store.WatchSet) bool {
		synced, changed := r.synced()
		mtu, passed := r.syncer.podMTU()
		if !synced || mtu == 0 {
			// What an earlier process programmed is not known before the first
			// pass, and nobody is told of less.
			ws.Add(changed)
			ws.Add(passed)
			return false
		}
		now = r.look(tx)
		return now.nodeUID != "" && (now.call != last.call || now.nodeUID != last.nodeUID || now.missing)
	})
	if err != nil && ctx.Err() == nil {
		err = nil // it is time to look at the VNIs
	}
	return now, err
}

// look says what there is to do. A node that is fenced asserts nothing:
// somebody vouches that nothing runs here.
func (r *rollCall) look(tx store.ReadTx) task {
	now := task{call: v1alpha1.NoCall}
	if row := store.GetRollCall(tx, v1alpha1.OperatorRollCall); row != nil {
		now.call = row.Call
	}
	self := store.GetNode(tx, r.node)
	if self == nil {
		return now
	}
	now.nodeUID = self.UID
	if records := r.journal.Records(); r.glance.again(tx, records, loses) || r.missing {
		r.missing = slices.ContainsFunc(records, func(rec journal.Record) bool {
			return lacksAddress(tx, rec) && lives(rec)
		})
	}
	now.missing = r.missing && !self.OutOfService
	return now
}

// loses says whether by a change the API may lack an Address of a sandbox: when
// one has gone, and when a VPC is again what it was.
func loses(c store.Change) bool {
	_, vpc := c.New.(*store.VPC)
	_, address := c.Old.(*store.Address)
	return vpc || address
}

// lacksAddress says whether the store lacks an Address that the API should
// have.
func lacksAddress(tx store.ReadTx, rec journal.Record) bool {
	lacks := slices.ContainsFunc(rec.Addrs, func(prefix netip.Prefix) bool {
		return store.AddressByIP(tx, rec.VPC, prefix.Addr()) == nil
	})
	return lacks && plan.WhyLost(tx, rec) == ""
}

// lives says whether an attachment's interface is there.
func lives(rec journal.Record) bool {
	if rec.Phase != journal.PhaseDone {
		return false
	}
	link, err := netlink.LinkByName(rec.HostIfName)
	return err == nil && link.Attrs().Index == rec.Device.HostIfindex
}

// assert creates the Addresses that sandboxes of this node hold and the API
// lacks. It goes by the API server itself: the store may lag behind a restore.
func (r *rollCall) assert(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var fenced bool
	r.store.View(func(tx store.ReadTx) {
		self := store.GetNode(tx, r.node)
		fenced = self != nil && self.OutOfService
	})
	if fenced {
		return nil
	}
	// The Addresses before the journal: what the journal has afterwards still
	// lived when they were read, so none of it was released before.
	var list v1alpha1.AddressList
	if err := r.api.List(ctx, &list, "", fields.OneTermEqualSelector("spec.node", r.node).String()); err != nil {
		return fmt.Errorf("list the node's addresses: %w", err)
	}
	there := map[string]bool{}
	for _, address := range list.Items {
		there[address.Name] = true
	}
	var errs []error
	for _, rec := range r.journal.Records() {
		errs = append(errs, r.assertRecord(ctx, rec, there))
	}
	return errors.Join(errs...)
}

func (r *rollCall) assertRecord(ctx context.Context, rec journal.Record, there map[string]bool) error {
	if len(rec.Subnets) != len(rec.Addrs) {
		return nil // written before the journal kept them
	}
	var missing []*v1alpha1.Address
	for _, address := range r.addressesOf(rec) {
		if !there[address.Name] {
			missing = append(missing, address)
		}
	}
	if len(missing) == 0 || !lives(rec) {
		return nil
	}
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: rec.VPC}}
	err := r.api.Get(ctx, vpc)
	if apierrors.IsNotFound(err) || err == nil && uint32(vpc.Status.VNI) != rec.VNI {
		return nil // lost: see plan.WhyLost
	}
	if err != nil {
		return fmt.Errorf("get VPC: %w", err)
	}
	var errs []error
	for _, address := range missing {
		err := r.api.Create(ctx, address)
		switch {
		case err == nil:
			r.log.Warn("the API had lost the address of a running pod; created it anew",
				"address", address.Name, "pod", rec.Pod.String(), "podUID", rec.Pod.UID)
		case !apierrors.IsAlreadyExists(err): // else the pod's own, or it is lost
			errs = append(errs, fmt.Errorf("assert address %s of pod %s: %w", address.Name, rec.Pod, err))
		}
	}
	return errors.Join(errs...)
}

// addressesOf are the Address objects that an attachment must have.
func (r *rollCall) addressesOf(rec journal.Record) []*v1alpha1.Address {
	var set []string
	for _, prefix := range rec.Addrs {
		set = append(set, prefix.Addr().String())
	}
	var list []*v1alpha1.Address
	for i, prefix := range rec.Addrs {
		list = append(list, &v1alpha1.Address{
			ObjectMeta: metav1.ObjectMeta{
				Name:        v1alpha1.AddressName(rec.VPC, prefix.Addr()),
				Annotations: map[string]string{v1alpha1.AssertedAnnotation: rec.ContainerID},
			},
			Spec: v1alpha1.AddressSpec{
				VPC: rec.VPC, Subnet: rec.Subnets[i], IP: set[i], MAC: rec.MAC.String(), Node: r.node,
				Holder: v1alpha1.AddressHolder{
					Kind: v1alpha1.HolderPod, Namespace: rec.Pod.Namespace, Name: rec.Pod.Name, UID: rec.Pod.UID,
				},
				Attachment: rec.Attachment, Set: set,
			},
		})
	}
	return list
}

// answer writes what the node says, if that is not what it said last, and
// returns what it has said.
func (r *rollCall) answer(ctx context.Context, now task, last reply) (reply, error) {
	if now.nodeUID == "" {
		return last, nil
	}
	say := reply{call: now.call, nodeUID: now.nodeUID}
	for _, vni := range r.syncer.held() {
		say.vnis = append(say.vnis, int32(vni))
	}
	if say.equal(last) {
		return last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if err := r.write(ctx, say); err != nil {
		return last, fmt.Errorf("write the node's answer: %w", err)
	}
	return say, nil
}

func (r *rollCall) write(ctx context.Context, say reply) error {
	object := &v1alpha1.RollCall{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NodeRollCall(r.node)}}
	err := r.api.Get(ctx, object)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	exists := err == nil
	object.Spec = v1alpha1.RollCallSpec{Call: say.call, VNIs: say.vnis}
	object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: r.node, UID: types.UID(say.nodeUID)}}
	if exists {
		return r.api.Update(ctx, object)
	}
	return r.api.Create(ctx, object)
}
