"""Reads cases as JSON, a list, and writes what dnf would do in each, as JSON too.

A case is {"root": folder with var/lib/rpm, "repos": [{"id", "url", "priority"}], "cache": folder, "wants": [[text, ...], ...]}; the
answer for each list of wants is {"add": ["name [epoch:]version-release arch", ...], "remove": [...], "error": text}.
"""
import json
import logging
import os
import sys

import dnf


def label(p):
    epoch = "" if not p.epoch else "%s:" % p.epoch
    return "%s %s%s-%s %s" % (p.name, epoch, p.version, p.release, p.arch)


def open_base(case):
    base = dnf.Base()
    conf = base.conf
    conf.installroot = case["root"]
    conf.cachedir = case["cache"]
    conf.persistdir = case["cache"] + "/persist"
    conf.logdir = case["cache"] + "/log"
    os.makedirs(conf.logdir, exist_ok=True)
    conf.reposdir = []
    conf.varsdir = []
    conf.pluginpath = []
    conf.plugins = False
    conf.gpgcheck = False
    conf.best = True
    conf.install_weak_deps = False
    conf.protected_packages = []
    conf.substitutions["releasever"] = "9"
    for r in case["repos"]:
        repo = dnf.repo.Repo(r["id"], conf)
        repo.baseurl = ["file://" + r["url"]]
        repo.priority = r["priority"]
        base.repos.add(repo)
    base.fill_sack(load_system_repo=True)
    return base


def resolve(base, wants):
    base.reset(goal=True)
    try:
        for want in wants:
            base.install(want)
        base.resolve(allow_erasing=False)
    except (dnf.exceptions.Error,) as e:
        return {"error": str(e)}
    t = base.transaction
    return {"add": sorted(label(p) for p in t.install_set), "remove": sorted(label(p) for p in t.remove_set)}


def main():
    logging.disable(logging.CRITICAL)
    answers = []
    for case in json.load(sys.stdin):
        base = open_base(case)
        answers.append([resolve(base, wants) for wants in case["wants"]])
        base.close()
    json.dump(answers, sys.stdout)


main()
