// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/store"
	"github.com/alioth-net/alioth/store/rules/services"
	"github.com/alioth-net/alioth/store/rules/tenancy"
)

// shares have the usage of the nodes' tables by the Services of each VPC, so that all
// Services are examined only where the VPC exceeds its quota. The daemons omit the
// same Services, but only the operator reports them.
type shares struct {
	mu       sync.Mutex
	taken    map[string]services.Usage
	services map[types.NamespacedName]share
	// notified are the Services with an event, with their VPC and UID. It needs no
	// persistence: after a restart all events are written once more.
	notified map[types.NamespacedName]unserved
}

// share is the usage of one Service in its VPC.
type share struct {
	vpc   string
	usage services.Usage
}

// unserved is a Service with one UID that is above the quota.
type unserved struct{ vpc, uid string }

func newShares() *shares {
	return &shares{
		taken:    map[string]services.Usage{},
		services: map[types.NamespacedName]share{},
		notified: map[types.NamespacedName]unserved{},
	}
}

// look stores the usage of a Service, which is nil if no Service has the name. It returns the
// Services that are newly above the quota: a Service can displace younger ones.
func (s *shares) look(
	tx store.ReadTx,
	name types.NamespacedName,
	service *store.Service,
	rules Rules,
) (news []*store.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	vpcs := []string{s.services[name].vpc}
	s.note(tx, name, service, rules)
	if now := s.services[name].vpc; now != vpcs[0] {
		vpcs = append(vpcs, now)
	}
	for _, vpc := range vpcs {
		if vpc != "" {
			news = append(news, s.lookAt(tx, vpc, rules)...)
		}
	}
	return news
}

// note replaces the stored usage of a Service.
func (s *shares) note(tx store.ReadTx, name types.NamespacedName, service *store.Service, rules Rules) {
	if last, known := s.services[name]; known {
		delete(s.services, name)
		if s.taken[last.vpc] = s.taken[last.vpc].Minus(last.usage); s.taken[last.vpc] == (services.Usage{}) {
			delete(s.taken, last.vpc)
		}
	}
	if service == nil || shared(tx, service, rules) {
		return
	}
	if vpc := services.VPCOf(tx, service, rules.DefaultVPC); vpc != "" {
		now := share{vpc: vpc, usage: services.UsageOf(tx, vpc, service)}
		s.services[name], s.taken[vpc] = now, s.taken[vpc].Plus(now.usage)
	}
}

// lookAt returns the Services of a VPC that are newly above the quota.
func (s *shares) lookAt(tx store.ReadTx, vpc string, rules Rules) (news []*store.Service) {
	left := map[types.NamespacedName]bool{}
	for _, service := range s.beyond(tx, vpc, rules) {
		name, now := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, unserved{vpc, service.UID}
		left[name] = true
		if s.notified[name] != now {
			s.notified[name] = now
			news = append(news, service)
		}
	}
	for name, last := range s.notified {
		if last.vpc == vpc && !left[name] {
			delete(s.notified, name)
		}
	}
	return news
}

// beyond returns the Services of a VPC that are above its quota on every node.
func (s *shares) beyond(tx store.ReadTx, vpc string, rules Rules) []*store.Service {
	row := store.GetVPC(tx, vpc)
	if row == nil || services.QuotaOfVPC.Holds(s.taken[vpc]) {
		return nil
	}
	return services.Beyond(
		tx,
		vpc,
		slices.DeleteFunc(services.Services(tx, row, rules.DefaultVPC), func(service *store.Service) bool {
			return shared(tx, service, rules)
		}),
	)
}

// exhausted refuses a Service above the quota.
var exhausted = tenancy.Refusal{Reason: v1alpha1.ServicesExhaustedReason, Message: fmt.Sprintf(
	"the Services of the VPC exceed the limit of %d addresses and ports of addresses, or of %d backends, on each node: "+
		"the youngest Services, including this one, are not served; delete unused Services, or move some to another VPC",
	services.QuotaOfVPC.Rows, services.QuotaOfVPC.Backends)}
