// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/api/version"
	"github.com/alioth-net/alioth/test/freeport"
	"github.com/alioth-net/alioth/test/waits"
)

const pollEvery = 50 * time.Millisecond

// start makes one attempt at starting both programs.
func start(ctx context.Context, bin programs) (_ *Server, err error) {
	dir, err := os.MkdirTemp("", "alioth-apiserver-")
	if err != nil {
		return nil, fmt.Errorf("make a data folder: %w", err)
	}
	s := &Server{dir: dir}
	ok := false
	defer func() {
		if !ok {
			s.Stop()
		}
	}()
	ports, err := freeport.Choose(ctx, 3)
	if err != nil {
		return nil, err
	}
	clients, peers, secure := loopback(ports[0]), loopback(ports[1]), int(ports[2])
	s.programs, s.storage, s.etcdArgs = bin, clients, etcdArgs(dir, clients, peers)
	if s.etcd, err = launch(ctx, dir, etcdProgram, bin.etcd, s.etcdArgs...); err != nil {
		return nil, err
	}
	token := rand.Text()
	if s.apiArgs, err = apiArgs(dir, clients, secure, token); err != nil {
		return nil, err
	}
	s.apiArgs = append(s.apiArgs, bin.more...)
	if s.api, err = launch(ctx, dir, apiProgram, bin.api, s.apiArgs...); err != nil {
		return nil, err
	}
	s.config = adminConfig(secure, token)
	if err := s.waitReady(ctx); err != nil {
		return nil, err
	}
	ok = true
	return s, nil
}

func loopback(port uint16) string {
	return "http://127.0.0.1:" + strconv.Itoa(int(port))
}

func adminConfig(port int, token string) *rest.Config {
	return &rest.Config{
		Host:        "https://127.0.0.1:" + strconv.Itoa(port),
		BearerToken: token,
		// The server signs its own certificate afresh in each run.
		TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		QPS:             -1,
	}
}

func etcdArgs(dir, clients, peers string) []string {
	return []string{
		"--name=test",
		"--data-dir=" + etcdData(dir),
		"--listen-client-urls=" + clients,
		"--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers,
		"--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=test=" + peers,
		"--unsafe-no-fsync",
	}
}

// apiArgs writes the files that the API server needs into dir and returns its
// arguments.
func apiArgs(dir, etcd string, port int, token string) ([]string, error) {
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write the administrator's token: %w", err)
	}
	key := filepath.Join(dir, "service-account.key")
	if err := writeKey(key); err != nil {
		return nil, err
	}
	audit, err := auditArgs(dir)
	if err != nil {
		return nil, err
	}
	if os.Getenv(Variable) == "" {
		audit = append(audit, "--min-compatibility-version="+celVersion())
	}
	return append(audit, []string{
		"--etcd-servers=" + etcd,
		"--cert-dir=" + filepath.Join(dir, "certs"),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		// No client dials the Service "kubernetes" here, so the address in it (RFC 5737) need not
		// exist.
		"--advertise-address=192.0.2.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + ServiceCIDR4 + "," + ServiceCIDR6,
		// Larger than by default: a bench has thousands of NodePort Services.
		"--service-node-port-range=20000-32767",
		"--service-account-key-file=" + key,
		"--service-account-signing-key-file=" + key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--token-auth-file=" + tokens,
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--enable-admission-plugins=NodeRestriction",
		// No controller makes ServiceAccounts, so pods could not be created.
		"--disable-admission-plugins=ServiceAccount",
	}...), nil
}

// celVersion returns the version whose CEL libraries the oldest API server accepts in new
// expressions: one minor version before its own. With it the default API server refuses the same
// expressions as the oldest one.
func celVersion() string {
	return utilversion.MustParseGeneric(version.OldestKubernetes).OffsetMinor(-1).String()
}

// writeKey writes a fresh key for signing ServiceAccount tokens.
func writeKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make the ServiceAccount key: %w", err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return fmt.Errorf("write the ServiceAccount key: %w", err)
	}
	return nil
}

// waitReady waits until /readyz succeeds, a program ended, or time is up.
func (s *Server) waitReady(ctx context.Context) error {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, waits.Limit(readyWithin))
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		_, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		if ended := errors.Join(s.etcd.ended(), s.api.ended()); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf(
				"wait for /readyz: %w (last answer: %w); the API server's log ends:\n%s",
				ctx.Err(),
				err,
				s.api.tail(),
			)
		case <-ticker.C:
		}
	}
}
