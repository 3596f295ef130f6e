// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	"github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/cnid/nmstate/policy/policyhandler"
	"github.com/alioth-net/alioth/operator/feed"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/client/kube"
	"github.com/alioth-net/alioth/store/kinds/core"
	"github.com/alioth-net/alioth/store/kinds/nmstateapi"
	"github.com/alioth-net/alioth/test/soak"
)

// policing returns a configuration with the area of node networks.
func policing(mode string) Config {
	cfg := testConfig()
	cfg.NodeNetworkState, cfg.PolicyMode = true, mode
	return cfg
}

func conflictOrGone(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

// inBothModes runs a test with an operator that handles all policies, and with daemons that handle
// the policies of their nodes.
func inBothModes(t *testing.T, name string, nodes int, test func(t *testing.T, f *fleet)) {
	for _, mode := range []string{PolicyDistributed, PolicyCentralized} {
		t.Run(mode, func(t *testing.T) {
			f := newFleet(t, name+"-"+mode, nodes)
			if mode == PolicyDistributed {
				f.handlePolicies()
			}
			f.operate(policing(mode))
			test(t, f)
		})
	}
}

// handlePolicies runs the policy handlers of the fleet's daemons. They share a store, which
// daemons have their own parts of.
func (f *fleet) handlePolicies() {
	f.t.Helper()
	informers, err := cache.New(f.config, cache.Options{Scheme: f.Scheme()})
	if err != nil {
		f.t.Fatal(err)
	}
	api, err := kube.New(f.config, f.Scheme())
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := store.New()
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	var running sync.WaitGroup
	f.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	fed := feed.New(rows, logr.Discard())
	if err := fed.Connect(ctx, informers, append(nmstateapi.All(), core.Node.Kind)); err != nil {
		f.t.Fatal(err)
	}
	running.Go(func() {
		if err := informers.Start(ctx); err != nil {
			f.t.Errorf("the daemons' informers: %v", err)
		}
	})
	if fed.Fill(ctx); !fed.Synced() {
		f.t.Fatal("the daemons' stores are not filled")
	}
	handler := policyhandler.NewHandler(policyhandler.Config{
		API: api, Store: rows, Clock: clock.RealClock{}, Log: slog.New(slog.NewTextHandler(outputOf(f.t), nil)),
		Node: func(ctx context.Context, name string) (*corev1.Node, error) {
			node := &corev1.Node{}
			return node, informers.Get(ctx, client.ObjectKey{Name: name}, node)
		},
	})
	synced := func() (bool, <-chan struct{}) { return true, nil }
	for _, node := range f.nodes {
		running.Go(func() { handler.Run(ctx, node.Name, synced) })
	}
}

// policyIs makes a check of the condition of a policy that is true, of its reason and of a
// part of its message.
func policyIs(condition, reason, part string) func(*nmstatev1.NodeNetworkConfigurationPolicy) error {
	return func(p *nmstatev1.NodeNetworkConfigurationPolicy) error {
		got := meta.FindStatusCondition(p.Status.Conditions, condition)
		if got == nil || got.Status != metav1.ConditionTrue || got.Reason != reason || !strings.Contains(got.Message, part) ||
			got.ObservedGeneration != p.Generation {
			return fmt.Errorf("policy %s, generation %d: want %s, reason %s, %q; has %+v", p.Name, p.Generation, condition, reason, part, p.Status.Conditions)
		}
		return nil
	}
}

var configured = policyIs(nmstatev1.AvailableCondition, nmstatev1.SuccessfullyConfiguredReason, "")

// end deletes a policy and waits until nothing is left of it.
func (f *fleet) end(c *tally, policies ...*nmstatev1.NodeNetworkConfigurationPolicy) {
	f.t.Helper()
	for _, policy := range policies {
		f.delete(policy)
	}
	f.proceeds(func() (left int, err error) { return c.all(), nil })
}

// proceeds waits until nothing is left. It gives up when nothing has become less for as long
// as every wait takes at most.
func (f *fleet) proceeds(count func() (left int, err error)) {
	f.t.Helper()
	for last := -1; last != 0; {
		f.eventually(func() error {
			left, err := count()
			if err == nil && left != 0 && last >= 0 && left >= last {
				err = fmt.Errorf("%d are left", left)
			}
			if err == nil {
				last = left
			}
			return err
		})
	}
}

func TestPolicy_WrittenThenDeleted_ReachesNodesAndUndone(t *testing.T) {
	inBothModes(t, "policy", 3, func(t *testing.T, f *fleet) {
		c := f.count()
		p := f.policy("mtu", 1, document{"name": "eth1", "mtu": 9000})
		f.create(p)
		sees(f.rig, p, configured)
		for _, node := range f.nodes {
			f.eventually(func() error { return f.has(node.Name, "eth1", document{"mtu": 9000.0}) })
		}
		f.end(c, p)
		for _, node := range f.nodes {
			f.eventually(func() error { return f.has(node.Name, "eth1", document{"mtu": 1500.0}) })
		}
		c.atMost(t, 1, p)
	})
}

func TestPolicy_TooManyNodesFail_Stops(t *testing.T) {
	inBothModes(t, "failing", 3, func(t *testing.T, f *fleet) {
		c := f.count()
		p := f.policy("mtu", 1, document{"name": "eth1", "mtu": highestMTU + 1})
		f.create(p)
		sees(f.rig, p, policyIs(nmstatev1.DegradedCondition, nmstatev1.ConfigurationAbortedReason, "more than 9000"))
		f.eventually(func() error {
			if failing, aborted := c.in(nmstatev1.FailingCondition), c.in(nmstatev1.AbortedCondition); failing != 2 || aborted != 1 {
				return fmt.Errorf("%d nodes fail and %d have aborted, want 2 and 1", failing, aborted)
			}
			return nil
		})
		before := p.DeepCopy()
		p.Spec.DesiredState = rawState(map[string]document{"": {"name": "eth1", "mtu": 1400}})
		if err := f.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		sees(f.rig, p, configured)
		c.atMost(t, 1, p)
		f.end(c, p)
	})
}

// TestPolicy_FirstNodeFails_OthersGoOn: the first node fails whatever policies desire, or says so.
func TestPolicy_FirstNodeFails_OthersGoOn(t *testing.T) {
	inBothModes(t, "one-fails", 3, func(t *testing.T, f *fleet) {
		c := f.count()
		first, state := f.nodes[0].Name, &v1beta1.NodeNetworkState{}
		byHand := func(desired *runtime.RawExtension) {
			t.Helper()
			f.eventually(func() error {
				if err := f.Get(t.Context(), client.ObjectKey{Name: first}, state); err != nil {
					return err
				}
				before := state.DeepCopy()
				state.Spec.DesiredState = desired
				return f.Patch(t.Context(), state, client.MergeFrom(before))
			})
		}
		byHand(rawState(map[string]document{"": {"name": "eth2", "mtu": highestMTU + 1}}))
		p := f.policy("mtu", 1, document{"name": "eth1", "mtu": 1400})
		f.create(p)
		for _, node := range f.nodes[1:] {
			f.eventually(func() error { return f.has(node.Name, "eth1", document{"mtu": 1400.0}) })
		}
		sees(f.rig, p, policyIs(nmstatev1.DegradedCondition, nmstatev1.FailedToConfigureReason, "2 of 3 nodes configured, 1 failed. "+first))
		c.atMost(t, 1, p)
		byHand(nil)
		sees(f.rig, p, configured)
		f.end(c, p)
	})
}

func TestPolicy_NoNodeSelected_IgnoredUntilSelected(t *testing.T) {
	inBothModes(t, "ignored", 1, func(t *testing.T, f *fleet) {
		c := f.count()
		p := f.policy("mtu", 1, document{"name": "eth1", "mtu": 9000})
		p.Spec.NodeSelector["role"] = "worker"
		f.create(p)
		sees(f.rig, p, policyIs(nmstatev1.IgnoredCondition, nmstatev1.NoMatchingNodeReason, ""))
		f.label(f.nodes[0], "worker")
		sees(f.rig, p, configured)
		f.label(f.nodes[0], "")
		sees(f.rig, p, policyIs(nmstatev1.IgnoredCondition, nmstatev1.NoMatchingNodeReason, ""))
		f.eventually(func() error { return f.has(f.nodes[0].Name, "eth1", document{"mtu": 1500.0}) })
		f.end(c, p)
	})
}

// label sets the label role of a node, or removes it.
func (f *fleet) label(node *corev1.Node, role string) {
	f.t.Helper()
	f.get(node)
	before := node.DeepCopy()
	if node.Labels["role"] = role; role == "" {
		delete(node.Labels, "role")
	}
	if err := f.Patch(f.t.Context(), node, client.MergeFrom(before)); err != nil {
		f.t.Fatal(err)
	}
}

// mortal is the way of an operator to the API server: the operator dies with a grant, before
// it hears that it was made.
type mortal struct {
	next http.RoundTripper

	mu     sync.Mutex
	grants int
	dead   chan struct{}
}

var errDead = errors.New("the operator is dead")

// RoundTrip implements http.RoundTripper.
func (m *mortal) RoundTrip(request *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.dead:
		return nil, errDead
	default:
	}
	response, err := m.next.RoundTrip(request)
	if err == nil && request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/nodenetworkconfigurationenactments/") {
		if m.grants--; m.grants < 0 {
			response.Body.Close()
			close(m.dead)
			return nil, errDead
		}
	}
	return response, err
}

// TestPolicySlots_LeaderKilled_NoSecondSlot kills operators with each of their first
// writes to enactments: a slot, or its end.
func TestPolicySlots_LeaderKilled_NoSecondSlot(t *testing.T) {
	f := newFleet(t, "leaders", 6)
	f.handlePolicies()
	c := f.count()
	p := f.policy("mtu", 2, document{"name": "eth1", "mtu": 9000})
	f.create(p)
	for kill := range 4 {
		m := &mortal{grants: kill % 2, dead: make(chan struct{})}
		doomed := *f.rig
		doomed.config = rest.CopyConfig(f.config)
		doomed.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			m.next = next
			return m
		})
		stop := doomed.operate(policing(PolicyDistributed))
		f.eventually(func() error {
			select {
			case <-m.dead:
				return nil
			default:
				return errors.New("the operator lives")
			}
		})
		stop()
	}
	f.operate(policing(PolicyDistributed))
	sees(f.rig, p, configured)
	c.atMost(t, 2, p)
	c.once(t, len(f.nodes))
	f.end(c, p)
}

// scale is a number of nodes and policies, and of nodes that may change at once.
type scale struct{ nodes, policies, atOnce int }

func TestPolicies_ManyNodes_ReachedFewAtATime(t *testing.T) {
	size := soak.Or(t, scale{100, 20, 10}, scale{12, 5, 3})
	f := newFleet(t, "scale", size.nodes)
	c := f.count()
	f.operate(policing(PolicyCentralized))
	began := time.Now()
	var policies []*nmstatev1.NodeNetworkConfigurationPolicy
	for i := range size.policies {
		name := fmt.Sprintf("dummy%d", i)
		policies = append(policies, f.policy(name, size.atOnce, document{"name": name, "type": "dummy", "state": "up", "mtu": 1400}))
		f.create(policies[i])
	}
	f.proceeds(func() (left int, err error) {
		return size.nodes*size.policies - c.in(nmstatev1.AvailableCondition), nil
	})
	for _, p := range policies {
		sees(f.rig, p, configured)
	}
	t.Logf("%d policies were on %d nodes after %s", size.policies, size.nodes, time.Since(began).Round(time.Second))
	f.onAll(size, document{"mtu": 1400.0})
	c.atMost(t, size.atOnce, policies...)
	f.end(c, policies...)
	f.onAll(size, nil)
}

// onAll checks the interface of each policy on each node.
func (f *fleet) onAll(size scale, want document) {
	f.t.Helper()
	for _, node := range f.nodes {
		for i := range size.policies {
			f.eventually(func() error { return f.has(node.Name, fmt.Sprintf("dummy%d", i), want) })
		}
	}
}
