#!/bin/sh
# A stand-in for a test of GDRCopy, in whose form it knows the kernel's headers: kdir="/lib/modules/${kver}/build"
echo y
