// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/alioth-net/alioth/cnid/forward/plan/serviceplan"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rows/external"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/store/rows/roles"
	"github.com/alioth-net/alioth/store/rows/scaled"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/test/soak"
)

// follower is a node that follows what the operator judges in a world, and neither Services
// nor what they are judged by.
type follower struct {
	*world
	// cluster has all rows, which are known to the follower up to the revision.
	cluster  *store.Store
	revision uint64
}

func newFollower(t *testing.T, cluster *world) *follower {
	return &follower{world: newWorld(t), cluster: cluster.store}
}

// catchUp gives the node the rows that have changed, and the present verdicts.
func (f *follower) catchUp(t *testing.T, judge func(store.ReadTx) []*scaled.Endpoint) {
	t.Helper()
	f.cluster.View(func(from store.ReadTx) {
		changes, ok := store.ChangesSince(from, f.revision)
		if !ok {
			t.Fatal("the world forgot its changes")
		}
		f.revision = from.Revision()
		f.put(t, func(tx store.Tx) error {
			for _, change := range changes {
				if err := follow(tx, change); err != nil {
					return err
				}
			}
			return errors.Join(f.followSome(tx, from), replaceScaled(tx, judge(from)))
		})
	})
}

// followSome puts the VPCs and namespaces that the node needs, and deletes all others.
func (f *follower) followSome(tx store.Tx, from store.ReadTx) (err error) {
	vpcs, namespaces := f.needs(from)
	for _, row := range store.ListVPCs(tx) {
		// Two VPCs may have exchanged their VNIs: both go before either comes.
		if now := store.GetVPC(from, row.Name); !vpcs[row.Name] || now == nil || now.UID != row.UID || now.VNI != row.VNI {
			store.DeleteVPC(tx, row.Name, row.UID)
		}
	}
	for _, row := range store.ListVPCs(from) {
		if vpcs[row.Name] {
			err = errors.Join(err, store.PutVPC(tx, row))
		}
	}
	for _, row := range store.ListNamespaces(tx) {
		if !namespaces[row.Name] || store.GetNamespace(from, row.Name) == nil {
			store.DeleteNamespace(tx, row.Name, row.UID)
		}
	}
	for _, row := range store.ListNamespaces(from) {
		if namespaces[row.Name] {
			err = errors.Join(err, store.PutNamespace(tx, row))
		}
	}
	return err
}

// needs returns the names of the VPCs with anything on the node, and of the namespaces whose
// grants concern the node's ports.
func (f *follower) needs(from store.ReadTx) (vpcs, namespaces map[string]bool) {
	cfg := testConfig()
	vpcs, namespaces = map[string]bool{cfg.DefaultVPC: true}, map[string]bool{}
	for _, rec := range f.records {
		vpcs[rec.VPC] = true
		if len(rec.HostPorts) > 0 {
			namespaces[rec.Pod.Namespace] = true
		}
	}
	for _, row := range store.AddressesByNode(from, cfg.Node) {
		vpcs[row.VPC] = true
	}
	for _, m := range roles.MembersByNode(from, cfg.Node) {
		vpcs[m.VPC] = true
	}
	return vpcs, namespaces
}

// follow applies the change of a row, if a node follows all rows of its kind.
func follow(tx store.Tx, change store.Change) error {
	row, gone := change.New, change.New == nil
	if gone {
		row = change.Old
	}
	switch row := row.(type) {
	case *store.Service, *store.EndpointSlice, *store.Network, *store.VPC, *store.Namespace:
		return nil
	case *store.Subnet:
		return either(gone, func() { store.DeleteSubnet(tx, row.Name, row.UID) }, func() error { return store.PutSubnet(tx, row) })
	case *store.Address:
		return either(gone, func() { store.DeleteAddress(tx, row.Name, row.UID) }, func() error { return store.PutAddress(tx, row) })
	case *store.Node:
		return either(gone, func() { store.DeleteNode(tx, row.Name, row.UID) }, func() error { return store.PutNode(tx, row) })
	case *store.Pod:
		return either(gone, func() { store.DeletePod(tx, row.UID) }, func() error { return store.PutPod(tx, row) })
	case *store.HostPod:
		return either(gone, func() { store.DeleteHostPod(tx, row.UID) }, func() error { return store.PutHostPod(tx, row) })
	case *store.SharedService:
		return either(gone, func() { store.DeleteSharedService(tx, row.Name, row.UID) }, func() error { return store.PutSharedService(tx, row) })
	case *store.ServiceCIDR:
		return either(gone, func() { store.DeleteServiceCIDR(tx, row.Name, row.UID) }, func() error { return store.PutServiceCIDR(tx, row) })
	case *external.Pool:
		return either(gone, func() { external.DeletePool(tx, row.Name, row.UID) }, func() error { return external.PutPool(tx, row) })
	case *external.Address:
		return either(gone, func() { external.DeleteAddress(tx, row.IP, row.UID) }, func() error { return external.PutAddress(tx, row) })
	case *external.HostAccess:
		return either(gone, func() { external.DeleteHostAccess(tx, row.Name, row.UID) }, func() error { return external.PutHostAccess(tx, row) })
	case *multinet.Claim:
		return either(gone, func() { multinet.DeleteClaim(tx, row.Namespace, row.Name, row.UID) }, func() error { return multinet.PutClaim(tx, row) })
	case *roles.Member:
		return either(gone, func() { roles.DeleteMember(tx, row.Name, row.UID) }, func() error { return roles.PutMember(tx, row) })
	case *multinet.DomainClaim:
		return either(gone, func() { multinet.DeleteDomainClaim(tx, row.Number, row.UID) }, func() error { return multinet.PutDomainClaim(tx, row) })
	}
	return fmt.Errorf("a row of type %T, of which it is not said whether nodes follow it", row)
}

func either(gone bool, remove func(), put func() error) error {
	if gone {
		remove()
		return nil
	}
	return put()
}

// replaceScaled leaves these ScaledEndpoints, and no others.
func replaceScaled(tx store.Tx, rows []*scaled.Endpoint) error {
	for _, held := range slices.Collect(scaled.All(tx)) {
		if !slices.ContainsFunc(rows, func(row *scaled.Endpoint) bool { return row.Name == held.Name }) {
			scaled.Delete(tx, held.Name, held.UID)
		}
	}
	for _, row := range rows {
		if err := scaled.Put(tx, row); err != nil {
			return err
		}
	}
	return nil
}

// knowledge is the knowledge of the operator, on a node with some VPCs.
type knowledge struct {
	tx      store.ReadTx
	cfg     Config
	present map[string]uint32
}

// Shared implements services.Knowledge.
func (k knowledge) Shared(row *store.Service) bool { return isShared(k.tx, k.cfg, row) }

// Reserved implements services.Knowledge.
func (k knowledge) Reserved(row *store.Service) bool {
	return serviceplan.RefOf(row) == k.cfg.APIServer
}

// Partial implements services.Knowledge.
func (k knowledge) Partial(vpc string) bool { return k.present[vpc] == 0 }

// judgeAll judges all Services as the operator does, but for what a node lacks: the VPCs
// that it does not carry are partial. Each verdict is cut into parts of two backends.
func judgeAll(tx store.ReadTx, cfg Config, present map[string]uint32) (rows []*scaled.Endpoint) {
	rules := services.Rules{
		DefaultVPC: cfg.DefaultVPC, Knowledge: knowledge{tx, cfg, present}, Node: cfg.Node,
	}
	for _, service := range store.ListServices(tx) {
		for _, v := range append(services.JudgeOutside(tx, rules, service), services.Judge(tx, rules, service)) {
			rows = append(rows, partsOf(v)...)
		}
	}
	return rows
}

// isShared reports whether every VPC reaches a Service, by the configuration or by a row.
func isShared(tx store.ReadTx, cfg Config, service *store.Service) bool {
	named := slices.ContainsFunc(store.ListSharedServices(tx), func(row *store.SharedService) bool {
		return row.ServiceNamespace == service.Namespace && row.ServiceName == service.Name
	})
	return service.Network == "" && (named || slices.Contains(cfg.SharedServices, serviceplan.RefOf(service)))
}

func partsOf(v *services.Verdict) (rows []*scaled.Endpoint) {
	head := v.Head
	for part, rest := 0, v.Backends; part == 0 || len(rest) > 0; part++ {
		n := min(len(rest), 2)
		row := &scaled.Endpoint{
			Name: fmt.Sprintf("%s.%s.%s/%s.%d", v.Namespace, v.Service, v.VPC, v.VPCUID, part), ID: v.ID, Part: part, Backends: rest[:n],
		}
		if part == 0 {
			row.Head = &head
		}
		rows, rest = append(rows, row), rest[n:]
	}
	return rows
}

// followed is a random world, with a node that follows the verdicts about it.
type followed struct {
	*randomWorld
	node *follower
	// rows plans by the rows, scaled by the verdicts.
	rows, scaled *Planner
}

func newFollowed(t *testing.T, seed uint64) *followed {
	r := &randomWorld{world: tenants(t), Rand: rand.New(rand.NewPCG(seed, 1))}
	return &followed{randomWorld: r, node: newFollower(t, r.world), rows: &Planner{}, scaled: &Planner{}}
}

// step makes the changes of one step. The Service of the API server is always there, and a
// slice in a network is one of a Service there: by slices alone the operator judges nothing,
// and a node that goes by slices has its pods join the network for nothing.
func (f *followed) step(t *testing.T) {
	t.Helper()
	f.randomWorld.step(t)
	f.update(t, func(tx store.Tx) error {
		for _, uid := range []string{"lan1", "lan2"} {
			for _, slice := range store.EndpointSlicesByDomain(tx, lan(uid).Domain()) {
				row := store.GetService(tx, slice.Namespace, slice.Service)
				if row == nil || !slices.Contains(services.Outside(tx, row), slice.Domain) {
					store.DeleteEndpointSlice(tx, slice.Namespace, slice.Name, slice.UID)
				}
			}
		}
		if store.GetService(tx, "default", "kubernetes") != nil {
			return nil
		}
		return service("default", "kubernetes", nil)(tx)
	})
}

// plans returns what the rows of the cluster come to, and what the verdicts do.
func (f *followed) plans(t *testing.T) (byRows, byVerdicts whole) {
	t.Helper()
	byRows = together(f.plan(f.rows, f.adapt))
	rows := f.node.store
	*f.node.world = *f.world
	f.node.store = rows
	f.node.catchUp(t, func(tx store.ReadTx) []*scaled.Endpoint {
		return judgeAll(tx, f.input(f.adapt).Config, f.rows.hereForServices(tx).Numbers)
	})
	return byRows, together(f.node.plan(f.scaled, f.follows))
}

func (f *followed) follows(cfg *Config) {
	f.adapt(cfg)
	cfg.ScaledEndpoints = true
}

// TestVerdicts_AgainstRows_MeanTheSame: a node plans the same by what the operator has judged as
// by the Services and slices themselves.
func TestVerdicts_AgainstRows_MeanTheSame(t *testing.T) {
	served := 0
	for seed := range soak.Or(t, uint64(200), 10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := newFollowed(t, seed)
			for step := range 600 {
				f.step(t)
				want, got := f.plans(t)
				if !reflect.DeepEqual(want, got) {
					t.Fatalf("step %d: the plan (-by rows +by verdicts):\n%s", step, cmp.Diff(want, got, byValue))
				}
				if anew := f.node.build(f.follows); !reflect.DeepEqual(anew, got) {
					t.Fatalf("step %d: the plan by verdicts (-anew +kept):\n%s", step, cmp.Diff(anew, got, byValue))
				}
				served += len(got.Datapath.Services)
			}
		})
	}
	if served < 1000 {
		t.Errorf("in all steps together there were %d ports of Services: too few", served)
	}
}
