// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pod assigns addresses to pods: it finds the Network and VPC that a pod
// belongs to, claims the addresses, and writes the pod's allocation status in one
// patch, for the pod's node and its owner.
package pod

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/quote"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/operator/claim"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/operator/ipam"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rules/allocation"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// workers is the number of pods that are processed at once: most of the time they wait for the API
// server.
const workers = 8

// errAssigned reports that the API has an allocation status of the pod, or an object that
// confirms it, that the store does not have yet.
var errAssigned = errors.New("the pod got its addresses in the meantime")

// Options are the dependencies and settings of a Reconciler.
type Options struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server.
	Live    client.Reader
	Store   *store.Store
	Claimer *claim.Claimer
	Events  events.EventRecorder
	Metrics *Metrics
	// Sources list the attachments that a pod should have, the first attachment first.
	Sources []Source
	// Sharing is whose definitions pods of other namespaces may name.
	Sharing multinet.Sharing
	Clock   clock.PassiveClock
}

// Reconciler carries out the decisions of decide. Use New.
type Reconciler struct {
	Options
	waiting *waiting
}

// New returns a reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, waiting: newWaiting()}
}

// Register adds the controller.
func Register(controllers feed.Controllers, f *feed.Feed, r *Reconciler) error {
	return controllers.Add("pod", workers, r, r.source(f))
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	// Before the store is read, so that no later change is missed.
	r.waiting.begin(request.NamespacedName)
	var pod *store.Pod
	var d decision
	var shared []string
	r.Store.View(func(tx store.ReadTx) {
		if pod = store.PodByName(tx, request.Namespace, request.Name); pod != nil {
			d, shared = decide(tx, pod, r.Sources), r.lenders(tx, pod)
		}
	})
	refusal, err := r.carryOut(ctx, pod, d)
	if apierrors.IsNotFound(err) || errors.Is(err, claim.ErrHolderGone) || errors.Is(err, errAssigned) {
		err = nil // its event has come, or will come
	}
	if errors.Is(err, claim.ErrUnreleased) {
		refusal, err = &tenancy.Refusal{Message: err.Error()}, nil // the event of the claim will come
	}
	if pod == nil || refusal == nil && err == nil {
		r.waiting.remove(request.NamespacedName)
	} else {
		r.waiting.wait(request.NamespacedName, pod.Tenant, keysOf(pod, d, shared))
	}
	return ctrl.Result{}, err
}

// carryOut returns the refusal that is valid until a change, or nil.
func (r *Reconciler) carryOut(ctx context.Context, pod *store.Pod, d decision) (*tenancy.Refusal, error) {
	if d.verb == assign || d.verb == refuse || d.rewrite {
		if err := r.confirmUndecided(ctx, pod); err != nil {
			return nil, err
		}
		if err := r.holdUnconfirmed(pod); err != nil {
			return nil, err
		}
	}
	if err := r.expel(ctx, d.surplus); err != nil {
		return nil, err
	}
	switch d.verb {
	case wait:
		return &d.refusal, nil
	case refuse:
		return &d.refusal, r.refuse(ctx, pod, d.refusal)
	case restore:
		return r.restoreAll(ctx, pod, d)
	case assign:
		return r.assign(ctx, pod, d.desired)
	case leave:
	}
	return nil, nil
}

func (r *Reconciler) expel(ctx context.Context, rows []*store.Address) error {
	for _, row := range rows {
		if err := r.Claimer.Expel(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// assign claims the addresses of all attachments of a pod and writes them to its
// allocation status, or returns the refusal.
func (r *Reconciler) assign(ctx context.Context, pod *store.Pod, desired []Desired) (*tenancy.Refusal, error) {
	claimed, err := r.Claimer.ClaimAll(ctx, wanted(pod, desired))
	var no *ipam.Error
	switch {
	case errors.Is(err, claim.ErrUnsettled):
		// No user's mistake, and soon over: the pod waits.
		return &tenancy.Refusal{Message: err.Error()}, nil
	case errors.As(err, &no):
		refusal := tenancy.Refusal{Reason: no.Reason, Message: no.Message}
		return &refusal, r.refuse(ctx, pod, refusal)
	case err != nil:
		return nil, err
	}
	return r.record(ctx, pod, desired, claimed)
}

// restoreAll carries out a decision to restore. It completes the decided parts, and then replaces
// an allocation status if nothing confirms a part of it.
func (r *Reconciler) restoreAll(ctx context.Context, pod *store.Pod, d decision) (*tenancy.Refusal, error) {
	awaits := d.refusal != tenancy.Refusal{}
	if !d.rewrite && !awaits {
		if err := r.restoreClaims(ctx, pod); err != nil {
			return nil, err
		}
	}
	claimed, refusal, err := r.restore(ctx, pod, d.desired)
	switch {
	case err != nil || refusal != nil:
		return refusal, err
	case awaits:
		if d.refusal.Reason != "" {
			r.warn(pod, d.refusal)
		}
		return &d.refusal, nil
	case d.rewrite:
		return r.record(ctx, pod, d.desired, claimed)
	}
	return nil, nil
}

// restore claims the addresses of a pod's allocation status again, separately for each attachment:
// if another holder has the address of one, the pod keeps the others. Without a refusal it returns
// the rows of each.
func (r *Reconciler) restore(
	ctx context.Context,
	pod *store.Pod,
	desired []Desired,
) (claimed [][]*store.Address, first *tenancy.Refusal, _ error) {
	for _, w := range wanted(pod, desired) {
		rows, err := r.Claimer.Claim(ctx, w.Request, w.Prefer)
		var no *ipam.Error
		var refusal *tenancy.Refusal
		switch {
		case errors.Is(err, claim.ErrUnsettled):
			refusal = &tenancy.Refusal{Message: err.Error()}
		case errors.As(err, &no):
			refusal = &tenancy.Refusal{
				Reason:  no.Reason,
				Message: fmt.Sprintf("can't restore %s: %s", addressOf(w.Attachment), no.Message),
			}
			r.warn(pod, *refusal)
		case err != nil:
			return nil, nil, err
		}
		if first == nil {
			first = refusal
		}
		claimed = append(claimed, rows)
	}
	return claimed, first, nil
}

// addressOf names the address of an interface to its pod's owner.
func addressOf(name string) string {
	if name == v1alpha1.PodAttachment {
		return "the pod's address"
	}
	return "the address of interface " + name
}

// record writes the allocation status. It returns the refusal if the pod has no room for it.
// The pod keeps its addresses then: without them it would claim and release them at each try.
func (r *Reconciler) record(
	ctx context.Context,
	pod *store.Pod,
	desired []Desired,
	claimed [][]*store.Address,
) (*tenancy.Refusal, error) {
	var o outcome
	var err error
	r.Store.View(func(tx store.ReadTx) { o, err = describe(tx, pod, desired, claimed) })
	if err != nil {
		return nil, fmt.Errorf("describe addresses of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	patch := patchAssigned(pod, o, r.Clock.Now())
	if refusal, ok := tooLarge(pod, patch); ok {
		return &refusal, r.tell(ctx, pod, refusal)
	}
	if err := r.Claimer.ConfigureAddresses(ctx, pod, o.attachments); err != nil {
		return nil, err
	}
	if err := r.claimAttachments(ctx, pod, o.text); err != nil {
		return nil, err
	}
	if allocation.HasStatus(pod) && o.text == pod.Attachments {
		return nil, nil // it has that status already
	}
	if err := r.patch(ctx, pod, patch); err != nil {
		return nil, err
	}
	r.Metrics.assigned()
	r.reportReplaced(pod)
	for _, w := range desired {
		for _, notice := range w.Notices {
			r.Events.Eventf(reference(pod), nil, corev1.EventTypeWarning, notice.Reason, notice.Action, "%s", notice.Message)
		}
	}
	for _, a := range o.attachments {
		ctrl.LoggerFrom(ctx).
			Info("addresses assigned", "interface", a.Name, "vpc", a.VPC, "subnet", a.Subnet, "addresses", a.Addresses, "node", pod.Node)
	}
	return nil, nil
}

// claimAttachments makes the AttachmentClaims of a pod match an allocation status, "" for none.
func (r *Reconciler) claimAttachments(ctx context.Context, pod *store.Pod, text string) error {
	var rows []claim.AttachmentRow
	if text != "" {
		var err error
		if rows, err = attachmentRows(text); err != nil {
			return fmt.Errorf("read the attachments of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return r.Claimer.ClaimAttachments(ctx, pod, rows)
}

// restoreClaims makes the AttachmentClaims of a pod match its allocation status, and adds
// configurations to Addresses of release 0.1.
func (r *Reconciler) restoreClaims(ctx context.Context, pod *store.Pod) error {
	var rows []claim.AttachmentRow
	var err error
	r.Store.View(func(tx store.ReadTx) { rows, err = rowsToKeep(tx, pod) })
	if err != nil {
		return fmt.Errorf("read the attachments of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if err := r.Claimer.CompleteAddresses(ctx, pod, allocation.Status(pod)); err != nil {
		return err
	}
	return r.Claimer.ClaimAttachments(ctx, pod, rows)
}

// refuse releases the addresses that were claimed for the pod, and writes the refusal for the pod's
// owner.
func (r *Reconciler) refuse(ctx context.Context, pod *store.Pod, refusal tenancy.Refusal) error {
	if err := r.Claimer.ReleaseAll(ctx, pod.AsHolder(), pod.Node); err != nil {
		return err
	}
	if err := r.claimAttachments(ctx, pod, ""); err != nil {
		return err
	}
	return r.tell(ctx, pod, refusal)
}

// tell writes a refusal to the pod's status and an event, once per cause, and again if the
// pod's annotations contain addresses.
func (r *Reconciler) tell(ctx context.Context, pod *store.Pod, refusal tenancy.Refusal) error {
	if pod.Reason == refusal.Reason && pod.Message == quote.Message(refusal.Message) && !pretends(pod) {
		return nil
	}
	if err := r.patch(ctx, pod, patchRefused(pod, refusal, r.Clock.Now())); err != nil {
		return err
	}
	r.Metrics.refused(refusal.Reason)
	r.reportReplaced(pod)
	r.warn(pod, refusal)
	ctrl.LoggerFrom(ctx).Info("addresses refused", "reason", refusal.Reason, "message", quote.Message(refusal.Message))
	return nil
}

// reportReplaced counts, and writes an event, that an allocation status was replaced which
// no object of the operator confirmed.
func (r *Reconciler) reportReplaced(pod *store.Pod) {
	if !allocation.HasStatus(pod) {
		return
	}
	r.Metrics.replaced()
	r.warn(pod, tenancy.Refusal{
		Reason: v1alpha1.AllocationReplacedReason,
		Message: "the pod's annotation " + v1alpha1.AttachmentsAnnotation + " named what no Address or AttachmentClaim of the pod confirms, so the pod was decided anew; " +
			"delete the pod if it ran with other addresses; if nobody deleted its Addresses, find out who writes pods/status in this namespace",
	})
}

func (r *Reconciler) warn(pod *store.Pod, refusal tenancy.Refusal) {
	r.Events.Eventf(reference(pod), nil, corev1.EventTypeWarning, refusal.Reason, "AssignAddresses", "%s", refusal.Message)
}
