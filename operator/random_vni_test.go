// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	danmv1 "github.com/alioth-net/alioth/api/danm/v1"
	danmiov1 "github.com/alioth-net/alioth/api/danmio/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store/rows/multinet"
	"github.com/alioth-net/alioth/test/soak"
)

// manyVNIEpisodes and vniEpisodes are the numbers of episodes of TestHostVNIs_RandomEvents_NumbersDistinct,
// with vniSteps each.
const manyVNIEpisodes, vniEpisodes, vniSteps = 400, 15, 250

// vniRanges are the ranges that the TenantConfig has in turn. No range has a number for each
// network.
var vniRanges = []string{"200-203", "202-206", "200,205-206"}

// vniChaos is a world where people make and delete networks, and change the TenantConfig, while two
// operators are killed between any two requests.
type vniChaos struct {
	*world
	rand  *rand.Rand
	depth int
	calm  bool
	did   map[string]int
}

// TestHostVNIs_RandomEvents_NumbersDistinct checks after each step that a TenantNetwork that is Ready holds
// the claim of its number, so that no two networks have the same number. At the end each network
// has a number, unless none is left, and each claim has a network. ALIOTH_SEED repeats a run.
func TestHostVNIs_RandomEvents_NumbersDistinct(t *testing.T) {
	seed, count := uint64(time.Now().UnixNano()), soak.Or(t, manyVNIEpisodes, vniEpisodes)
	if text := os.Getenv("ALIOTH_SEED"); text != "" {
		given, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed, count = given, 1
	}
	did := map[string]int{}
	for episode := range count {
		one := seed + uint64(episode)
		c := &vniChaos{world: newWorld(seeded{t, one}), rand: rand.New(rand.NewPCG(one, 1)), did: did}
		c.intercept = c.disturb
		c.run()
	}
	t.Logf("ALIOTH_SEED=%d: %v", seed, did)
	for _, what := range []string{"killed before", "killed after", "lost reply", "ready", "exhausted"} {
		if did[what] == 0 && count > 1 {
			t.Errorf("in no episode: %s", what)
		}
	}
}

func (c *vniChaos) run() {
	c.create(&danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "tenants"}, HostDevices: []danmv1.HostDevice{
		{Name: "ens4", VNIType: danmv1.VNITypeVLAN, VNIRange: vniRanges[0]},
	}})
	c.operate()
	c.operate()
	for range vniSteps {
		if len(c.operators) < 2 {
			c.operate()
		}
		if all := c.choices(); len(all) > 0 && c.rand.IntN(10) > 0 {
			c.do(all[c.rand.IntN(len(all))])
		} else {
			c.somebody()
		}
		c.clock = c.clock.Add(time.Duration(c.rand.IntN(200)) * time.Millisecond)
		c.checkVNIs()
	}
	c.calm = true
	for len(c.operators) > 0 {
		c.crash(c.operators[0])
	}
	c.operate() // in the end one leads
	c.settle()
	c.checkVNIs()
	c.checkVNIsAtRest()
}

// disturb kills an operator before or after the effect of a write, loses replies, and lets
// others go on between.
func (c *vniChaos) disturb(_ string, o *instance, verb string, _ client.Object, effect func() error) error {
	if c.calm || o == nil || verb == fromCache {
		return effect()
	}
	c.others()
	switch c.rand.IntN(25) {
	case 0:
		c.did["killed before"]++
		c.crash(o)
		return errKilled
	case 1:
		c.did["killed after"]++
		_ = effect() // nobody hears the reply
		c.crash(o)
		return errKilled
	case 2:
		c.did["lost reply"]++
		_ = effect() // nobody hears the reply
		return errors.New("the connection is gone")
	}
	err := effect()
	c.others()
	return err
}

// others lets something else happen within a request.
func (c *vniChaos) others() {
	if c.depth >= 2 {
		return
	}
	c.depth++
	defer func() { c.depth-- }()
	for range c.rand.IntN(4) {
		if all := c.choices(); len(all) > 0 {
			c.do(all[c.rand.IntN(len(all))])
		}
	}
}

// somebody is an action of a person.
func (c *vniChaos) somebody() {
	name := fmt.Sprintf("n%d", c.rand.IntN(8))
	meta := metav1.ObjectMeta{Namespace: "shop", Name: name}
	spec := danmv1.NetworkSpec{NetworkID: "net", Options: danmv1.NetworkOptions{HostDevice: "ens4"}}
	if c.rand.IntN(2) == 0 {
		spec.Options.HostDevice = "" // any
	}
	var network client.Object = &danmv1.TenantNetwork{ObjectMeta: meta, Spec: spec}
	if c.rand.IntN(2) == 0 {
		network = &danmiov1.TenantNetwork{ObjectMeta: meta, Spec: spec}
	}
	switch c.rand.IntN(8) {
	case 0, 1, 2, 3, 4:
		_ = c.api.create(network) // it may exist
	case 5:
		_ = c.api.delete(network, nil) // it may be gone
	case 6:
		edit(c.world, &danmv1.TenantConfig{ObjectMeta: metav1.ObjectMeta{Name: "tenants"}}, func(config *danmv1.TenantConfig) {
			config.HostDevices = []danmv1.HostDevice{{Name: "ens4", VNIType: danmv1.VNITypeVLAN, VNIRange: vniRanges[c.rand.IntN(len(vniRanges))]}}
		})
	case 7:
		admin := &danmv1.DanmNet{ObjectMeta: meta, Spec: danmv1.NetworkSpec{NetworkID: "admin", Options: danmv1.NetworkOptions{HostDevice: "ens4", VLAN: 205}}}
		if c.api.create(admin) != nil {
			_ = c.api.delete(admin, nil) // it was there
		}
	}
}

// tenantNetwork has the fields of a TenantNetwork that the checks need, of either group.
type tenantNetwork struct {
	client.Object
	spec   danmv1.NetworkSpec
	status danmv1.NetworkStatus
}

func (n tenantNetwork) reason() string {
	if c := meta.FindStatusCondition(n.status.Conditions, v1alpha1.ReadyCondition); c != nil {
		return c.Reason
	}
	return ""
}

func (c *vniChaos) tenantNetworks() []tenantNetwork {
	var all []tenantNetwork
	for _, n := range sorted[*danmv1.TenantNetwork](c.api) {
		all = append(all, tenantNetwork{n, n.Spec, n.Status})
	}
	for _, n := range sorted[*danmiov1.TenantNetwork](c.api) {
		all = append(all, tenantNetwork{n, n.Spec, n.Status})
	}
	return all
}

func (c *vniChaos) holds(n tenantNetwork) bool {
	p := n.status.Profile
	if p == nil {
		return false
	}
	name := v1alpha1.HostVNIClaimName(multinet.VLAN, uint32(p.VLAN), p.HostDevice)
	claim, ok := c.api.objects[keyOf(&v1alpha1.HostVNIClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})].(*v1alpha1.HostVNIClaim)
	return ok && claim.Spec.Network.UID == string(n.GetUID())
}

func (c *vniChaos) checkVNIs() {
	for _, n := range c.tenantNetworks() {
		if n.GetDeletionTimestamp() == nil && n.reason() == v1alpha1.ReadyReason && !c.holds(n) {
			c.fail("TenantNetwork %s (%s) is Ready with the profile %+v, of which it has no claim", n.GetName(), n.GetUID(), n.status.Profile)
		}
	}
}

func (c *vniChaos) checkVNIsAtRest() {
	// A network that an older one of its name keeps from serving keeps its claim: it may have
	// been made in the same second, and have pods.
	held, resting := map[string]bool{}, map[string]bool{}
	for _, n := range c.tenantNetworks() {
		switch reason := n.reason(); {
		case n.GetDeletionTimestamp() != nil:
			c.fail("TenantNetwork %s is still there", n.GetName())
		case reason == v1alpha1.ReadyReason:
			held[string(n.GetUID())] = true
			c.did["ready"]++
		case reason == v1alpha1.VNIExhaustedReason:
			c.did["exhausted"]++
		case reason == v1alpha1.NameConflictReason:
			resting[string(n.GetUID())] = true
		default:
			c.fail("TenantNetwork %s: %s", n.GetName(), reason)
		}
	}
	for _, claim := range sorted[*v1alpha1.HostVNIClaim](c.api) {
		uid := claim.Spec.Network.UID
		if !held[uid] && !resting[uid] {
			c.fail("claim %s is of network %s, which has no use of it", claim.Name, uid)
		}
		delete(held, uid)
		delete(resting, uid)
	}
	for uid := range held {
		c.fail("network %s has no claim", uid)
	}
	config := sorted[*danmv1.TenantConfig](c.api)[0]
	if reason := meta.FindStatusCondition(config.Status.Conditions, v1alpha1.ReadyCondition); reason == nil || reason.Status != metav1.ConditionTrue {
		c.fail("the TenantConfig is not Ready")
	}
}
